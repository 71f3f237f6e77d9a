-- schedule_register: makes schedule() accept timeouts of a topology, except removed ones, with the delays of the topology file. $1 text[]
-- names, $2 text topology, $3 bigint[] delays in milliseconds -> name text (removed timeouts, which it refuses)
WITH taken AS (
    INSERT INTO {own}.schedule_timeouts (name, topology, after)
    SELECT name, $2, ms::float8 * interval '1 millisecond'
    FROM ROWS FROM (pg_catalog.unnest($1::text[]), pg_catalog.unnest($3::bigint[])) AS given (name, ms)
    ON CONFLICT (name, topology) DO UPDATE SET after = excluded.after
    WHERE schedule_timeouts.removed_at IS NULL AND schedule_timeouts.after <> excluded.after
)
SELECT name FROM {own}.schedule_timeouts
WHERE topology = $2 AND name = ANY ($1::text[]) AND removed_at IS NOT NULL
  AND name NOT IN (SELECT name FROM {own}.schedule_timeouts WHERE removed_at IS NULL)
ORDER BY name
