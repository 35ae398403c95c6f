-- materialise
-- required_records: a row is run, cell, mode, usable required contestant; its record against every usable required
-- rival of another house. A beats B where lo > 1 + tie band; they are level where the whole interval lies in the band.
CREATE VIEW required_records AS
WITH duels AS (
    SELECT r.*, a.time_us, n.tie_band, coalesce(r.lo > 1 + n.tie_band, FALSE) AS beaten
    FROM ratios r
    JOIN required_field a
        ON a.run_id = r.run_id AND a.cell_id = r.cell_id AND a.timing_mode = r.timing_mode
        AND a.contestant = r.contestant AND a.usable
    JOIN required_field b
        ON b.run_id = r.run_id AND b.cell_id = r.cell_id AND b.timing_mode = r.timing_mode
        AND b.contestant = r.rival AND b.usable
    LEFT JOIN noise_floors n ON n.run_id = r.run_id AND n.timing_mode = r.timing_mode
    WHERE r.house <> r.rival_house
)
SELECT
    run_id,
    cell_id,
    timing_mode,
    contestant,
    any_value(house) AS house,
    any_value(time_us) AS time_us,
    bool_and(beaten) AS beats_all,
    bool_and(coalesce(lo_wide > 1 + tie_band, FALSE)) AS beats_all_wide,
    min(reason) FILTER (WHERE conditions_differ) AS difference,
    min(reason) FILTER (WHERE lo IS NULL) AS no_interval,
    min(rounds) AS shared_rounds,
    string_agg(rival, ', ' ORDER BY rival) AS rivals,
    list(rival ORDER BY rival) FILTER (WHERE lo >= 1 / (1 + tie_band) AND hi <= 1 + tie_band) AS level_with,
    arg_min(
        {'rival': rival, 'speedup': speedup_vs_rival, 'lo': lo, 'hi': hi, 'lo_wide': lo_wide, 'hi_wide': hi_wide},
        {'speedup': speedup_vs_rival, 'rival': rival}
    ) AS nearest,
    arg_min(
        {'rival': rival, 'speedup': speedup_vs_rival, 'lo': lo, 'hi': hi},
        {'speedup': speedup_vs_rival, 'rival': rival}
    ) FILTER (WHERE NOT beaten) AS unbeaten
FROM duels
GROUP BY run_id, cell_id, timing_mode, contestant;
