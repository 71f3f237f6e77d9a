-- history_closures: deletes closures that are older than is kept, from a part of the table: so each time a few blocks are read,
-- however large the table is. The BRIN index by time finds the first ones as well, and loses that when their space is used again.
-- $1 bigint first block, $2 bigint blocks, $3 bigint milliseconds that are kept
-- -> is_mine boolean (no other session does so now), deleted bigint, blocks bigint (of the table)
WITH mine AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(hashtextextended('history', 'closures'::regclass::oid::bigint)) AS is_mine
), gone AS (
    DELETE FROM closures
    WHERE (SELECT is_mine FROM mine)
      AND ctid >= ('(' || $1::bigint::text || ',0)')::tid AND ctid < ('(' || ($1::bigint + $2::bigint)::text || ',0)')::tid
      AND closed_at < now() - $3::bigint::float8 * interval '1 millisecond'
    RETURNING 1
)
SELECT is_mine, (SELECT count(*) FROM gone) AS deleted,
       pg_relation_size('closures'::regclass) / current_setting('block_size')::bigint AS blocks
FROM mine
