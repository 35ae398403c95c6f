-- materialise
-- run_roster: a row is run, precision, contestant; its house and role.
-- Required are those of the roster and those that the run's policy requires of the device: a roster that
-- forgets or demotes a required rival does not make it optional. A contestant that has samples and stands
-- in no roster is shown as informational.
CREATE VIEW run_roster AS
WITH houses AS (
    SELECT contestant, min(house) AS house FROM rosters GROUP BY contestant
),
run_precisions AS (
    SELECT DISTINCT c.run_id, c.precision, r.device, r.policy_sha256
    FROM run_cells c
    JOIN run_status r ON r.run_id = c.run_id
),
policy_rivals AS (
    SELECT DISTINCT p.run_id, p.precision, q.contestant
    FROM run_precisions p
    JOIN policy_required q ON q.policy_sha256 = p.policy_sha256 AND q.precision = p.precision
    WHERE q.device = p.device
        OR (
            q.device = 'default'
            AND NOT EXISTS (
                SELECT 1 FROM policy_required named
                WHERE named.policy_sha256 = p.policy_sha256 AND named.device = p.device
            )
        )
),
seen AS (
    SELECT DISTINCT m.run_id, c.precision, m.contestant
    FROM (SELECT DISTINCT run_id, cell_id, contestant FROM round_medians) m
    JOIN run_cells c ON c.run_id = m.run_id AND c.cell_id = m.cell_id
),
everyone AS (
    SELECT run_id, precision, contestant FROM rosters
    UNION SELECT run_id, precision, contestant FROM policy_rivals
    UNION SELECT run_id, precision, contestant FROM seen
)
SELECT
    e.run_id,
    e.precision,
    e.contestant,
    coalesce(o.house, h.house, e.contestant) AS house,
    CASE WHEN p.contestant IS NOT NULL THEN 'required' ELSE coalesce(o.role, 'informational') END AS role,
    coalesce(o.entered, s.contestant IS NOT NULL) AS entered,
    o.control_of,
    o.contestant IS NOT NULL AS listed
FROM everyone e
LEFT JOIN rosters o ON o.run_id = e.run_id AND o.precision = e.precision AND o.contestant = e.contestant
LEFT JOIN policy_rivals p ON p.run_id = e.run_id AND p.precision = e.precision AND p.contestant = e.contestant
LEFT JOIN seen s ON s.run_id = e.run_id AND s.precision = e.precision AND s.contestant = e.contestant
LEFT JOIN houses h ON h.contestant = e.contestant;
