-- materialise
-- run_versions: a row is run, contestant; what its workers ran, as one text that is equal where the versions are.
CREATE VIEW run_versions AS
SELECT
    run_id,
    contestant,
    concat_ws(
        ':',
        'torch ' || one_or_two(torch_version),
        'triton ' || one_or_two(triton_version),
        'package ' || one_or_two(package_version),
        'source ' || one_or_two(source_sha256)
    ) AS version
FROM workers
GROUP BY run_id, contestant;
