-- history_dropped: as history_closures, for the records of messages that were dropped from the parking lot.
-- $1 timestamptz now by the worker's clock, $2 bigint milliseconds to keep, $3 bigint most rows
-- -> deleted bigint (0 while another session deletes)
WITH gone AS (
    DELETE FROM {own}.dropped_messages WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {own}.dropped_messages
        WHERE dropped_at < least(now(), $1::timestamptz) - $2::bigint::float8 * interval '1 millisecond'
          AND (SELECT pg_try_advisory_xact_lock(hashtextextended('history', '{own}.dropped_messages'::regclass::oid::bigint)))
        ORDER BY dropped_at LIMIT $3))
    RETURNING 1
)
SELECT count(*) AS deleted FROM gone
