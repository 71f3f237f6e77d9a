-- pause: pauses a timeout, or changes its pause. $1 text topology, $2 text timeout, $3 bigint for so many milliseconds, $4 text why
-- -> ends_at timestamptz
INSERT INTO pauses (topology, timeout, why, ends_at) VALUES ($1, $2, $4, clock_timestamp() + $3::bigint::float8 * interval '1 ms')
ON CONFLICT (topology, timeout) DO UPDATE
SET why = excluded.why, ends_at = excluded.ends_at, paused_by = session_user, per_second = NULL, used_until = NULL,
    paused_at = CASE WHEN pauses.per_second IS NULL AND pauses.ends_at > clock_timestamp() THEN pauses.paused_at ELSE excluded.paused_at END
RETURNING ends_at
