-- burst_lock: takes the lock of an effect's burst until the transaction ends, if no other transaction has it: of any worker on
-- the same tables. Otherwise whether the one that has it has sent a statement in the last half second. By the clock, since now()
-- is the beginning of this transaction. The activity of another user is not visible: then it counts as none.
-- $1 text effect -> is_taken boolean, moves boolean
SELECT is_taken, CASE WHEN is_taken THEN false ELSE EXISTS (
    SELECT FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND objsubid = 1 AND granted
      AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND classid = ((key >> 32) & 4294967295)::oid AND objid = (key & 4294967295)::oid
      AND state_change > pg_catalog.clock_timestamp() - interval '500 ms'
) END AS moves
FROM (
    SELECT key, pg_try_advisory_xact_lock(key) AS is_taken
    FROM (SELECT hashtextextended('burst ' || $1::text, 'closures'::regclass::oid::bigint)) AS named (key)
    OFFSET 0
) AS asked
