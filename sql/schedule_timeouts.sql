-- schedule_timeouts: schedule() takes these timeouts of a topology, and no others of it. $1 text[] names, $2 text topology
-- -> name text (of those that it took before)
WITH taken AS (
    INSERT INTO schedule_timeouts (name, topology) SELECT pg_catalog.unnest($1::text[]), $2
    ON CONFLICT (name, topology) DO UPDATE SET removed_at = NULL WHERE schedule_timeouts.removed_at IS NOT NULL
)
UPDATE schedule_timeouts SET removed_at = now()
WHERE topology = $2 AND removed_at IS NULL AND name <> ALL ($1)
RETURNING name
