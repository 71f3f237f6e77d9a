-- history_closures: deletes the oldest closures that are older than is kept, by the index by time. A clock that is ahead makes none of them old:
-- they are old by both clocks.
-- $1 timestamptz now by the worker's clock, $2 bigint milliseconds that are kept, $3 bigint rows at the most
-- -> deleted bigint (none while another session deletes)
WITH gone AS (
    DELETE FROM {own}.closures WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {own}.closures
        WHERE closed_at < least(now(), $1::timestamptz) - $2::bigint::float8 * interval '1 millisecond'
          AND (SELECT pg_try_advisory_xact_lock(hashtextextended('history', '{own}.closures'::regclass::oid::bigint)))
        ORDER BY closed_at LIMIT $3))
    RETURNING 1
)
SELECT count(*) AS deleted FROM gone
