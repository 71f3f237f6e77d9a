-- history_dropped: as history_closures, for the records of messages that were dropped from the parking lot.
-- $1 bigint first block, $2 bigint blocks, $3 bigint milliseconds that are kept
-- -> is_mine boolean (no other session does so now), deleted bigint, blocks bigint (of the table)
WITH mine AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(hashtextextended('history', 'dropped_messages'::regclass::oid::bigint)) AS is_mine
), gone AS (
    DELETE FROM dropped_messages
    WHERE (SELECT is_mine FROM mine)
      AND ctid >= ('(' || $1::bigint::text || ',0)')::tid AND ctid < ('(' || ($1::bigint + $2::bigint)::text || ',0)')::tid
      AND dropped_at < now() - $3::bigint::float8 * interval '1 millisecond'
    RETURNING 1
)
SELECT is_mine, (SELECT count(*) FROM gone) AS deleted,
       pg_relation_size('dropped_messages'::regclass) / current_setting('block_size')::bigint AS blocks
FROM mine
