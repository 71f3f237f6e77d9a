-- history_actions: as history_closures, for the actions of people.
-- $1 timestamptz now by the worker's clock, $2 bigint milliseconds to keep, $3 bigint most rows
-- -> deleted bigint (0 while another session deletes)
WITH gone AS (
    DELETE FROM {own}.actions WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {own}.actions
        WHERE at < least(now(), $1::timestamptz) - $2::bigint::float8 * interval '1 millisecond'
          AND (SELECT pg_try_advisory_xact_lock(hashtextextended('history', '{own}.actions'::regclass::oid::bigint)))
        ORDER BY at LIMIT $3))
    RETURNING 1
)
SELECT count(*) AS deleted FROM gone
