-- schedule_timeouts: makes schedule() accept timeouts of a topology, with their delays, and refuse others of it. $1 text[] accepted, $2
-- text topology, $3 bigint[] delays in milliseconds, $4 text[] removed
WITH taken AS (
    INSERT INTO {own}.schedule_timeouts (name, topology, after)
    SELECT name, $2, ms::float8 * interval '1 millisecond'
    FROM ROWS FROM (pg_catalog.unnest($1::text[]), pg_catalog.unnest($3::bigint[])) AS given (name, ms)
    ON CONFLICT (name, topology) DO UPDATE SET removed_at = NULL, after = excluded.after
    WHERE schedule_timeouts.removed_at IS NOT NULL OR schedule_timeouts.after <> excluded.after
)
UPDATE {own}.schedule_timeouts SET removed_at = now()
WHERE topology = $2 AND removed_at IS NULL AND name = ANY ($4)
