-- The guarded merge of merge-semantics sections 2 and 3 (policy quarantine, the
-- default roles, one string payload column "value") as plain SQL, for engines
-- that have MERGE. The tests hold it against deltafold on Spark and on Sail.
--
-- guarded_input is a view of the batch: change_id, entity_id, source_version,
-- operation, value. {target} is the state table: entity_id, source_version,
-- status, value. The statements run in this order.

-- name: checked
-- merge-semantics 2: the first rule that fails is the row's outcome.
CREATE OR REPLACE TEMPORARY VIEW guarded_checked AS
SELECT
  change_id, entity_id, source_version, operation, value,
  CASE
    WHEN change_id IS NULL OR trim(change_id) = '' THEN 'invalid_change_id'
    WHEN entity_id IS NULL OR trim(entity_id) = '' THEN 'invalid_entity_id'
    WHEN source_version IS NULL OR source_version < 1 THEN 'invalid_version'
    WHEN operation IS NULL OR operation NOT IN ('upsert', 'delete') THEN 'invalid_operation'
    WHEN operation = 'upsert' AND value IS NULL THEN 'invalid_payload'
    WHEN operation = 'delete' AND value IS NOT NULL THEN 'invalid_payload'
  END AS invalid
FROM guarded_input

-- name: candidates
-- merge-semantics 3.1, reduce: one candidate a key, the rows with its highest
-- version. Among valid rows a delete has no value and an upsert has one, so
-- the rows agree when their operations do and their non-NULL values do.
CREATE OR REPLACE TEMPORARY VIEW guarded_candidates AS
SELECT
  v.entity_id,
  v.source_version,
  CASE
    WHEN min(v.operation) <> max(v.operation) OR min(v.value) <> max(v.value) THEN 'conflict'
    WHEN min(v.operation) = 'delete' THEN 'deleted'
    ELSE 'active'
  END AS status,
  CASE
    WHEN min(v.operation) = 'upsert' AND max(v.operation) = 'upsert' AND min(v.value) = max(v.value) THEN min(v.value)
  END AS value
FROM guarded_checked AS v
JOIN (
  SELECT entity_id, max(source_version) AS source_version
  FROM guarded_checked
  WHERE invalid IS NULL
  GROUP BY entity_id
) AS newest
  ON v.entity_id = newest.entity_id AND v.source_version = newest.source_version
WHERE v.invalid IS NULL
GROUP BY v.entity_id, v.source_version

-- name: outcomes
-- merge-semantics 3.1, decide: the table of outcomes, on the state as it is
-- before the merge.
SELECT
  i.change_id, i.entity_id, i.source_version, i.operation, i.value,
  CASE
    WHEN i.invalid IS NOT NULL THEN i.invalid
    WHEN i.source_version < c.source_version THEN 'superseded_in_batch'
    WHEN s.entity_id IS NULL AND c.status = 'conflict' THEN 'conflict'
    WHEN s.entity_id IS NULL THEN 'accepted'
    WHEN c.source_version < s.source_version THEN 'stale'
    WHEN c.source_version > s.source_version AND c.status = 'conflict' THEN 'conflict'
    WHEN c.source_version > s.source_version THEN 'accepted'
    WHEN s.status = 'conflict' THEN 'conflict'
    WHEN c.status = s.status AND c.value <=> s.value THEN 'duplicate'
    ELSE 'conflict'
  END AS outcome
FROM guarded_checked AS i
LEFT JOIN guarded_candidates AS c ON i.invalid IS NULL AND i.entity_id = c.entity_id
LEFT JOIN {target} AS s ON i.invalid IS NULL AND i.entity_id = s.entity_id

-- name: merge
-- merge-semantics 3.1, the last column of the table: what is stored afterwards.
MERGE INTO {target} AS s
USING guarded_candidates AS c
ON s.entity_id = c.entity_id
WHEN MATCHED AND c.source_version > s.source_version THEN
  UPDATE SET source_version = c.source_version, status = c.status, value = c.value
WHEN MATCHED AND c.source_version = s.source_version AND s.status <> 'conflict'
  AND NOT (c.status = s.status AND c.value <=> s.value) THEN
  UPDATE SET status = 'conflict', value = NULL
WHEN NOT MATCHED THEN
  INSERT (entity_id, source_version, status, value)
  VALUES (c.entity_id, c.source_version, c.status, c.value)
