-- history_closures: deletes the oldest closures from the index by time, if both clocks agree that they are too old. A fast clock therefore
-- deletes nothing.
-- $1 timestamptz now by the worker's clock, $2 bigint milliseconds to keep, $3 bigint most rows
-- -> deleted bigint (0 while another session deletes)
WITH gone AS (
    DELETE FROM {own}.closures WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {own}.closures
        WHERE closed_at < least(now(), $1::timestamptz) - $2::bigint::float8 * interval '1 millisecond'
          AND (SELECT pg_try_advisory_xact_lock(hashtextextended('history', '{own}.closures'::regclass::oid::bigint)))
        ORDER BY closed_at LIMIT $3))
    RETURNING 1
)
SELECT count(*) AS deleted FROM gone
