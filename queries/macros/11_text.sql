-- The value of a group of text; where its members differ, the first and the last of them, with ' | ' between.
CREATE MACRO one_or_two(x) AS
    CASE WHEN min(x) = max(x) THEN min(x) ELSE min(x) || ' | ' || max(x) END;
