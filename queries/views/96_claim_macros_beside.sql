-- Typed macros for claims about the gate, about decode inside a model and about served engines; like those of the race
-- they read the views and are made after them. No macro reads two of the three.
--
-- model_name   NULL takes the only model that the lake has of the kind; with several models NULL selects nothing
-- device_name  likewise
-- A comparison is true, false, or NULL: unknown. A number is NULL unless exactly one thing was selected.

CREATE MACRO claim_only(chosen, known) AS coalesce(chosen, CASE WHEN len(known) = 1 THEN known[1] END);

-- Gate: the run that speaks. A configuration by its name, or candidates by a glob. What was void or refused says nothing.

CREATE MACRO claim_gate(the_config, the_model := NULL, the_device := NULL) AS TABLE
    SELECT g.config, g.positions AS compared, 100 * g.agreement AS agreement
    FROM gate_results g
    JOIN gate_runs r ON r.run_id = g.run_id
    WHERE r.speaks
        AND r.model = claim_only(the_model, (SELECT list(DISTINCT n.model) FROM gate_runs n))
        AND r.device = claim_only(the_device, (SELECT list(DISTINCT n.device) FROM gate_runs n))
        -- Positions that no record of their configuration belongs to speak for themselves.
        AND (g.status = 'measured' OR g.attempt IS NULL) AND g.verdict <> 'void' AND g.agreement IS NOT NULL
        AND (
            list_contains(list_transform(string_split(the_config, ','), lambda name: trim(name)), g.config)
            OR (g.role = 'candidate' AND claim_match(g.config, the_config))
        );

CREATE MACRO agreement(configuration, model_name := NULL, device_name := NULL) AS (
    SELECT CASE WHEN count(*) = 1 THEN max(g.agreement) END
    FROM claim_gate(configuration, the_model := model_name, the_device := device_name) g
);

CREATE MACRO agreement_range(configuration, model_name := NULL, device_name := NULL) AS (
    SELECT CASE WHEN count(*) > 0 THEN {'low': min(g.agreement), 'high': max(g.agreement)} END
    FROM claim_gate(configuration, the_model := model_name, the_device := device_name) g
);

CREATE MACRO positions(configuration, model_name := NULL, device_name := NULL) AS (
    SELECT CASE WHEN min(g.compared) = max(g.compared) THEN min(g.compared) END
    FROM claim_gate(configuration, the_model := model_name, the_device := device_name) g
);

-- Decode inside a model at concurrency 1: the run that speaks. A row is a repeat of a configuration that was checked and
-- timed; one whose tokens are others than the stock model's was refused and has no rate.

CREATE MACRO claim_decode(the_model := NULL, the_device := NULL) AS TABLE
    SELECT p.config, p.repeat, p.tokens_per_s AS rate, coalesce(a.min_repeats, 3) AS enough
    FROM decode_repeats p
    JOIN decode_attempts a ON a.run_id = p.run_id AND a.config = p.config
    JOIN decode_runs r ON r.run_id = p.run_id
    WHERE r.speaks AND a.status = 'timed'
        AND r.model = claim_only(the_model, (SELECT list(DISTINCT n.model) FROM decode_runs n))
        AND r.device = claim_only(the_device, (SELECT list(DISTINCT n.device) FROM decode_runs n));

-- NULL below the repeats that the policy asks for: a run that was killed gives no figure.
CREATE MACRO decode_tokens_per_second(the_config, model_name := NULL, device_name := NULL) AS (
    SELECT CASE WHEN count(*) >= max(d.enough) THEN median(d.rate) END FROM claim_decode(the_model := model_name, the_device := device_name) d
    WHERE d.config = the_config
);

-- The median over the ratios of equal repeats, as decode_rates has it over the stock model.
CREATE MACRO decode_speedup(the_config, the_rival, model_name := NULL, device_name := NULL) AS (
    SELECT CASE WHEN count(*) >= max(d.enough) THEN median(d.rate / o.rate) END
    FROM claim_decode(the_model := model_name, the_device := device_name) d
    JOIN claim_decode(the_model := model_name, the_device := device_name) o ON o.repeat = d.repeat
    WHERE d.config = the_config AND o.config = the_rival
);

-- Every repeat of the first is quicker than every repeat of the second, over as many of each as the policy asks for.
CREATE MACRO decode_beats(the_config, the_rival, model_name := NULL, device_name := NULL) AS (
    SELECT CASE
        WHEN least(count(*) FILTER (WHERE d.config = the_config), count(*) FILTER (WHERE d.config = the_rival))
            >= max(d.enough)
            THEN min(d.rate) FILTER (WHERE d.config = the_config) > max(d.rate) FILTER (WHERE d.config = the_rival)
    END
    FROM claim_decode(the_model := model_name, the_device := device_name) d
);

-- Served engines, measured, at one concurrency: the median over repeats. NULL where the engine was served in several
-- versions or settings there.

CREATE MACRO claim_served_models() AS TABLE
    SELECT list(DISTINCT e.model) AS models, list(DISTINCT e.device) AS devices
    FROM serving_entrants e WHERE e.evidence = 'measured';

CREATE MACRO claim_served(engine_name, concurrency, the_model := NULL, the_device := NULL) AS TABLE
    SELECT e.* EXCLUDE (engine)
    FROM serving_entrants e
    WHERE e.evidence = 'measured' AND e.engine = engine_name AND e.max_concurrency = concurrency
        AND e.model = claim_only(the_model, (SELECT k.models FROM claim_served_models() k))
        AND e.device = claim_only(the_device, (SELECT k.devices FROM claim_served_models() k));

CREATE MACRO tokens_per_second(engine_name, concurrency, model_name := NULL, device_name := NULL) AS (
    SELECT CASE WHEN count(*) = 1 THEN max(s.output_tokens_per_s) END
    FROM claim_served(engine_name, concurrency, the_model := model_name, the_device := device_name) s
);

CREATE MACRO ttft_ms(engine_name, concurrency, model_name := NULL, device_name := NULL) AS (
    SELECT CASE WHEN count(*) = 1 THEN max(s.ttft_p50_ms) END
    FROM claim_served(engine_name, concurrency, the_model := model_name, the_device := device_name) s
);

-- From what was billed for the run, else from the rate of the run, else from the only rate on record for any machine.
CREATE MACRO cost_per_m_output_tokens(engine_name, concurrency, model_name := NULL, device_name := NULL) AS (
    SELECT CASE WHEN count(*) = 1 THEN coalesce(
        max(s.usd_per_million_by_billing),
        max(s.usd_per_million_by_rate),
        (SELECT CASE WHEN min(c.rate_usd_per_h) = max(c.rate_usd_per_h) THEN min(c.rate_usd_per_h) END
         FROM costs c WHERE c.basis = 'rate') / 3600 / max(s.output_tokens_per_s) * 1e6
    ) END
    FROM claim_served(engine_name, concurrency, the_model := model_name, the_device := device_name) s
);

-- Two engines that did the same work; metric_name is one of serving_metrics. Over 1 the first is better.
CREATE MACRO claim_served_pairs(
    engine_name, rival_name, concurrency, the_metric, the_model := NULL, the_device := NULL
) AS TABLE
    SELECT p.speedup_vs_rival AS speedup, p.lo, p.reason
    FROM serving_pairs p
    WHERE p.evidence = 'measured' AND p.engine = engine_name AND p.rival_engine = rival_name
        AND p.max_concurrency = concurrency AND p.metric = the_metric
        AND p.model = claim_only(the_model, (SELECT k.models FROM claim_served_models() k))
        AND p.device = claim_only(the_device, (SELECT k.devices FROM claim_served_models() k));

CREATE MACRO serving_speedup(
    engine_name, rival_name, concurrency, metric_name, model_name := NULL, device_name := NULL
) AS (
    SELECT CASE WHEN count(*) = 1 THEN max(p.speedup) END
    FROM claim_served_pairs(
        engine_name, rival_name, concurrency, metric_name, the_model := model_name, the_device := device_name
    ) p
);

CREATE MACRO serving_beats(
    engine_name, rival_name, concurrency, metric_name, model_name := NULL, device_name := NULL
) AS (
    SELECT CASE WHEN bool_or(p.lo <= 1) THEN FALSE WHEN count(*) > 0 AND count(*) = count(p.lo) THEN TRUE END
    FROM claim_served_pairs(
        engine_name, rival_name, concurrency, metric_name, the_model := model_name, the_device := device_name
    ) p
);
