-- blocker: the transaction that has kept locks on rows for longest. A guess at who holds an order, shown as such; other
-- users' sessions show only with pg_read_all_stats.
-- -> pid int, application_name text, state text, age_ms bigint
SELECT pid, coalesce(application_name, '') AS application_name, coalesce(state, '') AS state,
       (extract(epoch FROM clock_timestamp() - xact_start) * 1000.0)::bigint AS age_ms
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start < now() - interval '5 seconds'
  AND EXISTS (SELECT FROM pg_locks WHERE pg_locks.pid = pg_stat_activity.pid AND granted AND locktype = 'relation'
                AND mode IN ('RowShareLock', 'RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock',
                             'AccessExclusiveLock'))
ORDER BY xact_start LIMIT 1
