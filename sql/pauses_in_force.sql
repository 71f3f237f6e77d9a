-- pauses_in_force: current pauses of a topology, the last one to end first. $1 text topology
-- -> timeout text, why text, paused_by text, paused_at timestamptz, ends_at timestamptz, per_second integer, age_ms bigint, rest_ms bigint
SELECT timeout, why, paused_by, paused_at, least(ends_at, clock_timestamp() + interval '10 years') AS ends_at, per_second,
       pg_catalog.floor(1000.0 * extract(epoch FROM clock_timestamp() - paused_at))::bigint AS age_ms,
       pg_catalog.ceil(1000.0 * extract(epoch FROM least(ends_at, clock_timestamp() + interval '10 years') - clock_timestamp()))::bigint AS rest_ms
FROM {own}.pauses WHERE topology = $1 AND ends_at > clock_timestamp() ORDER BY ends_at DESC, timeout
