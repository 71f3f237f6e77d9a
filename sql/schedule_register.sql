-- schedule_register: schedule() takes these timeouts of a topology as well, but those that were removed. $1 text[] names, $2 text topology
-- -> name text (of those that it refuses, because they were removed)
WITH taken AS (
    INSERT INTO schedule_timeouts (name, topology) SELECT pg_catalog.unnest($1::text[]), $2 ON CONFLICT DO NOTHING
)
SELECT name FROM schedule_timeouts
WHERE topology = $2 AND name = ANY ($1::text[]) AND removed_at IS NOT NULL
  AND name NOT IN (SELECT name FROM schedule_timeouts WHERE removed_at IS NULL)
ORDER BY name
