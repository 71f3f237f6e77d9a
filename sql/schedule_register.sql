-- schedule_register: schedule() takes these timeouts of a topology as well, but those that were removed, with the delays of the topology
-- file. $1 text[] names, $2 text topology, $3 bigint[] delays in milliseconds -> name text (of those that it refuses: they were removed)
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
