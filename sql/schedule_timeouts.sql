-- schedule_timeouts: schedule() takes timeouts of a topology, and others of it no more. $1 text[] taken, $2 text topology, $3 text[] removed
WITH taken AS (
    INSERT INTO schedule_timeouts (name, topology) SELECT pg_catalog.unnest($1::text[]), $2
    ON CONFLICT (name, topology) DO UPDATE SET removed_at = NULL WHERE schedule_timeouts.removed_at IS NOT NULL
)
UPDATE schedule_timeouts SET removed_at = now()
WHERE topology = $2 AND removed_at IS NULL AND name = ANY ($3)
