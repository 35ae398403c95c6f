-- serving_measured: a row is a served run that was measured here, whatever became of it.
CREATE VIEW serving_measured AS
SELECT * FROM serving_runs WHERE evidence = 'measured';
