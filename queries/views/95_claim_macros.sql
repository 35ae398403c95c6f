-- Typed macros for claims in documents. They read the views, and DuckDB binds a macro where it is created: so they
-- are made after the views, and not with the text macros before them.
--
-- cells    four globs 'workload/precision/routing/tokens', each a comma-separated list: 'deepseek-moe-16b/bf16/*/1,4'
-- mode     'graph' or 'eager'; NULL takes all that were measured
-- device_name  NULL takes the only device of the lake; with several devices NULL selects nothing
-- A comparison is true, false, or NULL: unknown, for no cell or for a cell that cannot be judged. A number is NULL
-- unless every selected cell is complete. Over several cells a comparison uses the wide interval.

CREATE MACRO claim_match(value, patterns) AS
    list_bool_or(list_transform(string_split(patterns, ','), lambda pattern: value GLOB trim(pattern)));

-- claim_cells: the selected rows of comparable_cells, and whether they are several.
CREATE MACRO claim_cells(the_cells, the_mode := NULL, the_device := NULL) AS TABLE
    SELECT w.* EXCLUDE (device), count(*) OVER () > 1 AS several
    FROM comparable_cells w
    WHERE w.device = coalesce(
            the_device,
            (SELECT CASE WHEN count(DISTINCT d.device) = 1 THEN min(d.device) END FROM comparable_cells d)
        )
        AND (the_mode IS NULL OR w.timing_mode = the_mode)
        AND claim_match(w.workload, split_part(the_cells, '/', 1))
        AND claim_match(w.precision, split_part(the_cells, '/', 2))
        AND claim_match(w.routing, split_part(the_cells, '/', 3))
        AND claim_match(w.tokens::VARCHAR, split_part(the_cells, '/', 4));

-- claim_pairs: a row is a selected cell and mode and a rival (several: 'vllm,sglang'), whatever is known of them.
CREATE MACRO claim_pairs(the_contestant, the_rival, the_cells, the_mode := NULL, the_device := NULL) AS TABLE
    SELECT
        c.cell_id,
        c.timing_mode,
        n.name AS against,
        -- A mode whose noise is beyond the policy's bound decides nothing, so it has no ratio to print either.
        CASE WHEN c.complete AND c.decisive THEN r.speedup_vs_rival END AS speedup,
        CASE WHEN c.several THEN r.lo_wide ELSE r.lo END AS lo,
        CASE WHEN c.several THEN r.hi_wide ELSE r.hi END AS hi,
        c.tie_band,
        CASE WHEN c.decisive THEN CASE WHEN c.several THEN r.lo_wide ELSE r.lo END > 1 + c.tie_band END AS beaten,
        CASE WHEN c.decisive
            THEN CASE WHEN c.several THEN r.lo_wide ELSE r.lo END >= 1 / (1 + c.tie_band)
                AND CASE WHEN c.several THEN r.hi_wide ELSE r.hi END <= 1 + c.tie_band END AS level,
        CASE
            WHEN NOT c.complete THEN c.outcome_text
            WHEN r.rival IS NULL THEN n.name || ' or ' || the_contestant || ' takes no part'
            WHEN NOT c.decisive THEN coalesce(c.outcome_text, 'the cell cannot be judged')
            ELSE r.reason
        END AS reason
    FROM claim_cells(the_cells, the_mode := the_mode, the_device := the_device) c
    CROSS JOIN (SELECT trim(unnest(string_split(the_rival, ','))) AS name) n
    LEFT JOIN ratios r
        ON r.run_id = c.run_id AND r.cell_id = c.cell_id AND r.timing_mode = c.timing_mode
        AND r.contestant = the_contestant AND r.rival = n.name;

-- claim_times: a row is a selected cell and mode, with the contestant's time where the cell is complete.
CREATE MACRO claim_times(the_contestant, the_cells, the_mode := NULL, the_device := NULL) AS TABLE
    SELECT
        c.cell_id,
        c.timing_mode,
        CASE WHEN c.complete AND s.status = 'measured' THEN s.time_us END AS time_us,
        CASE WHEN c.complete AND s.status = 'measured' THEN s.time_us / s.reference_floor_us END AS x_floor,
        CASE
            WHEN NOT c.complete THEN c.outcome_text
            WHEN s.status IS NULL THEN the_contestant || ' takes no part'
            WHEN s.status <> 'measured' THEN the_contestant || ' is ' || s.status || ' (' || s.reason_code || ')'
        END AS reason
    FROM claim_cells(the_cells, the_mode := the_mode, the_device := the_device) c
    LEFT JOIN contestant_status s
        ON s.run_id = c.run_id AND s.cell_id = c.cell_id AND s.timing_mode = c.timing_mode
        AND s.contestant = the_contestant;

-- Race: comparisons.

CREATE MACRO beats(entrant, opponent, cells, mode := NULL, device_name := NULL) AS (
    SELECT CASE WHEN bool_or(NOT p.beaten) THEN FALSE WHEN count(*) > 0 AND count(*) = count(p.beaten) THEN TRUE END
    FROM claim_pairs(entrant, opponent, cells, the_mode := mode, the_device := device_name) p
);

CREATE MACRO ties(entrant, opponent, cells, mode := NULL, device_name := NULL) AS (
    SELECT CASE WHEN bool_or(NOT p.level) THEN FALSE WHEN count(*) > 0 AND count(*) = count(p.level) THEN TRUE END
    FROM claim_pairs(entrant, opponent, cells, the_mode := mode, the_device := device_name) p
);

-- wins over every required rival of another house, none of them refused; with rivals := over those.
CREATE MACRO wins(entrant, cells, rivals := NULL, mode := NULL, device_name := NULL) AS (
    CASE WHEN rivals IS NULL THEN (
        SELECT CASE WHEN bool_or(NOT t.won) THEN FALSE WHEN count(*) > 0 AND count(*) = count(t.won) THEN TRUE END
        FROM (
            SELECT CASE WHEN c.decisive THEN c.outcome = 'win' AND entrant IN (c.winner, c.house)
                AND c.wins_over_all AND (c.win_holds_wide OR NOT c.several) END AS won
            FROM claim_cells(cells, the_mode := mode, the_device := device_name) c
        ) t
    ) ELSE (
        SELECT CASE WHEN bool_or(NOT p.beaten) THEN FALSE WHEN count(*) > 0 AND count(*) = count(p.beaten) THEN TRUE END
        FROM claim_pairs(entrant, coalesce(rivals, ''), cells, the_mode := mode, the_device := device_name) p
    ) END
);

-- Race: numbers.

CREATE MACRO speedup(entrant, opponent, cells, mode := NULL, device_name := NULL) AS (
    SELECT CASE WHEN count(*) = 1 THEN max(p.speedup) END
    FROM claim_pairs(entrant, opponent, cells, the_mode := mode, the_device := device_name) p
);

CREATE MACRO ratio(entrant, opponent, cells, mode := NULL, device_name := NULL) AS (
    SELECT CASE WHEN count(*) = 1 THEN 1 / max(p.speedup) END
    FROM claim_pairs(entrant, opponent, cells, the_mode := mode, the_device := device_name) p
);

CREATE MACRO percent_faster(entrant, opponent, cells, mode := NULL, device_name := NULL) AS (
    SELECT CASE WHEN count(*) = 1 THEN 100 * (max(p.speedup) - 1) END
    FROM claim_pairs(entrant, opponent, cells, the_mode := mode, the_device := device_name) p
);

CREATE MACRO speedup_range(entrant, opponent, cells, mode := NULL, device_name := NULL) AS (
    SELECT CASE WHEN count(*) > 0 AND count(*) = count(p.speedup)
        THEN {'low': min(p.speedup), 'high': max(p.speedup)} END
    FROM claim_pairs(entrant, opponent, cells, the_mode := mode, the_device := device_name) p
);

CREATE MACRO percent_faster_range(entrant, opponent, cells, mode := NULL, device_name := NULL) AS (
    SELECT CASE WHEN count(*) > 0 AND count(*) = count(p.speedup)
        THEN {'low': 100 * (min(p.speedup) - 1), 'high': 100 * (max(p.speedup) - 1)} END
    FROM claim_pairs(entrant, opponent, cells, the_mode := mode, the_device := device_name) p
);

CREATE MACRO geomean_speedup(entrant, opponent, cells, mode := NULL, device_name := NULL) AS (
    SELECT CASE WHEN count(*) > 0 AND count(*) = count(p.speedup) THEN exp(avg(ln(p.speedup))) END
    FROM claim_pairs(entrant, opponent, cells, the_mode := mode, the_device := device_name) p
);

CREATE MACRO time_us(entrant, cells, mode := NULL, device_name := NULL) AS (
    SELECT CASE WHEN count(*) = 1 THEN max(t.time_us) END
    FROM claim_times(entrant, cells, the_mode := mode, the_device := device_name) t
);

CREATE MACRO time_range_us(entrant, cells, mode := NULL, device_name := NULL) AS (
    SELECT CASE WHEN count(*) > 0 AND count(*) = count(t.time_us)
        THEN {'low': min(t.time_us), 'high': max(t.time_us)} END
    FROM claim_times(entrant, cells, the_mode := mode, the_device := device_name) t
);

CREATE MACRO x_floor(entrant, cells, mode := NULL, device_name := NULL) AS (
    SELECT CASE WHEN count(*) = 1 THEN max(t.x_floor) END
    FROM claim_times(entrant, cells, the_mode := mode, the_device := device_name) t
);

CREATE MACRO x_floor_range(entrant, cells, mode := NULL, device_name := NULL) AS (
    SELECT CASE WHEN count(*) > 0 AND count(*) = count(t.x_floor)
        THEN {'low': min(t.x_floor), 'high': max(t.x_floor)} END
    FROM claim_times(entrant, cells, the_mode := mode, the_device := device_name) t
);

-- Race: counts. A cell that was measured in several selected modes is one cell; it is won if it is won in all of them.

CREATE MACRO cells(cells, mode := NULL, device_name := NULL) AS (
    SELECT CASE WHEN count(*) > 0 AND bool_and(c.complete) THEN count(DISTINCT c.cell_id) END
    FROM claim_cells(cells, the_mode := mode, the_device := device_name) c
);

CREATE MACRO wins_count(entrant, cells, mode := NULL, device_name := NULL) AS (
    SELECT CASE WHEN count(*) > 0 AND bool_and(t.complete) THEN count(*) FILTER (WHERE t.won) END
    FROM (
        SELECT
            bool_and(c.complete AND EXISTS (
                SELECT 1 FROM contestant_status s
                WHERE s.run_id = c.run_id AND s.cell_id = c.cell_id AND s.timing_mode = c.timing_mode
                    AND entrant IN (s.contestant, s.house)
            )) AS complete,
            bool_and(c.decisive AND coalesce(
                c.outcome = 'win' AND entrant IN (c.winner, c.house) AND c.wins_over_all, FALSE
            )) AS won
        FROM claim_cells(cells, the_mode := mode, the_device := device_name) c
        GROUP BY c.cell_id
    ) t
);

CREATE MACRO beats_count(entrant, opponent, cells, mode := NULL, device_name := NULL) AS (
    SELECT CASE WHEN count(*) > 0 AND bool_and(t.known) THEN count(*) FILTER (WHERE t.beaten) END
    FROM (
        SELECT bool_and(p.speedup IS NOT NULL) AS known, bool_and(coalesce(p.beaten, FALSE)) AS beaten
        FROM claim_pairs(entrant, opponent, cells, the_mode := mode, the_device := device_name) p
        GROUP BY p.cell_id
    ) t
);

-- Figures of a text, or of another tool's file. They are compared as points: supported or contradicted, never a win.
-- expected is the number of cells that the statement is about: fewer such cells leave it unknown.

CREATE MACRO claim_points(the_contestant, the_rival, the_cells := NULL, the_metric := NULL) AS TABLE
    SELECT p.cell_key, p.metric AS compared, p.rival AS against, p.speedup_vs_rival AS speedup, p.faster
    FROM points_pairs p
    JOIN (
        SELECT DISTINCT q.cell_key, q.evidence, q.metric, q.workload, q.precision, q.routing, q.tokens FROM points q
    ) k ON k.cell_key IS NOT DISTINCT FROM p.cell_key AND k.evidence = p.evidence AND k.metric = p.metric
    WHERE p.evidence IN ('published', 'imported') AND p.contestant = the_contestant AND p.rival IS NOT NULL
        AND (the_rival IS NULL OR claim_match(p.rival, the_rival))
        AND (the_metric IS NULL OR p.metric = the_metric)
        AND (the_cells IS NULL OR (
            claim_match(coalesce(k.workload, ''), split_part(the_cells, '/', 1))
            AND claim_match(coalesce(k.precision, ''), split_part(the_cells, '/', 2))
            AND claim_match(coalesce(k.routing, ''), split_part(the_cells, '/', 3))
            AND claim_match(coalesce(k.tokens::VARCHAR, ''), split_part(the_cells, '/', 4))
        ));

CREATE MACRO published_beats(entrant, opponent, cells := NULL, metric_name := NULL, expected := NULL) AS (
    SELECT CASE
        WHEN bool_or(p.faster IS DISTINCT FROM entrant) THEN FALSE
        WHEN count(DISTINCT p.cell_key) > 0 AND count(DISTINCT p.cell_key) >= expected THEN TRUE
    END
    FROM claim_points(entrant, opponent, the_cells := cells, the_metric := metric_name) p
);

CREATE MACRO published_speedup(entrant, opponent, metric_name, cells := NULL) AS (
    SELECT CASE WHEN count(*) = 1 THEN max(p.speedup) END
    FROM claim_points(entrant, opponent, the_cells := cells, the_metric := metric_name) p
);

-- Over the cells that both have, which have to be as many as the statement says: cells that one of the two has alone
-- are in no mean, and a count of cells within 1 % of each other is of neither.
CREATE MACRO published_geomean_speedup(entrant, opponent, metric_name, expected, cells := NULL) AS (
    SELECT CASE WHEN count(p.speedup) = expected THEN exp(avg(ln(p.speedup))) END
    FROM claim_points(entrant, opponent, the_cells := cells, the_metric := metric_name) p
);

CREATE MACRO published_beats_count(entrant, opponent, metric_name, expected, cells := NULL) AS (
    SELECT CASE WHEN count(p.speedup) = expected THEN count(*) FILTER (WHERE p.faster = entrant) END
    FROM claim_points(entrant, opponent, the_cells := cells, the_metric := metric_name) p
);

CREATE MACRO published_range(entrants, metric_name) AS (
    SELECT CASE WHEN count(*) > 0 AND count(*) = count(e.value) THEN {'low': min(e.value), 'high': max(e.value)} END
    FROM points_entrants e
    WHERE e.evidence IN ('published', 'imported') AND e.metric = metric_name AND claim_match(e.contestant, entrants)
);
