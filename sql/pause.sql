-- pause: pauses a timeout, or changes its pause; durable when it returns. $1 text topology, $2 text timeout, $3 text effect, $4 bigint
-- milliseconds, $5 text why -> ends_at timestamptz
INSERT INTO {own}.pauses (topology, timeout, effect, ends_at, why)
SELECT $1, $2, $3, clock_timestamp() + $4::bigint::float8 * interval '1 ms', $5
FROM (SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off' OFFSET 0) AS durable
RIGHT JOIN (VALUES (true)) AS one (row) ON true
ON CONFLICT (topology, timeout) DO UPDATE
SET why = excluded.why, ends_at = excluded.ends_at, effect = excluded.effect, paused_by = session_user, per_second = NULL, used_until = NULL,
    paused_at = CASE WHEN pauses.per_second IS NULL AND pauses.ends_at > clock_timestamp() THEN pauses.paused_at ELSE excluded.paused_at END
RETURNING ends_at
