-- resume: ends a pause; with a rate, orders are closed at that rate until fewer than half as many come due. $1 text topology, $2 text
-- timeout, $3 integer orders per second, or NULL -> as pauses_in_force, the pause before the change
WITH found AS (
    SELECT * FROM {own}.pauses WHERE topology = $1 AND timeout = $2 AND ends_at > clock_timestamp() FOR UPDATE
), ended AS (
    DELETE FROM {own}.pauses WHERE topology = $1 AND timeout = $2 AND $3::integer IS NULL
), slowed AS (
    UPDATE {own}.pauses SET per_second = $3, used_until = clock_timestamp(), ends_at = clock_timestamp() + interval '2 minutes'
    FROM found WHERE pauses.topology = $1 AND pauses.timeout = $2 AND $3::integer IS NOT NULL
)
SELECT timeout, why, paused_by, paused_at, least(ends_at, clock_timestamp() + interval '10 years') AS ends_at, per_second,
       pg_catalog.floor(1000.0 * extract(epoch FROM clock_timestamp() - paused_at))::bigint AS age_ms,
       pg_catalog.ceil(1000.0 * extract(epoch FROM least(ends_at, clock_timestamp() + interval '10 years') - clock_timestamp()))::bigint AS rest_ms
FROM found
