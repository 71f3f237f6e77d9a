-- blocker: the session that a waiting session waits for, at the end of the chain. Every user may read pg_locks and application names. The
-- state of other users' sessions needs pg_read_all_stats.
-- $1 int pid of the waiting session
-- -> relation text (NULL if unknown), is_row bool, pid int (0: a prepared transaction), usename text,
--    application_name text, state text, age_ms bigint
WITH RECURSIVE chain (pid, depth) AS (
    SELECT blocker, 1 FROM pg_catalog.unnest(pg_blocking_pids($1::int)) AS blocker
    UNION
    SELECT blocker, depth + 1
    FROM chain CROSS JOIN LATERAL pg_catalog.unnest(pg_blocking_pids(chain.pid)) AS blocker WHERE depth < 8
), waited AS (
    -- A session that waits for the transaction on a row has the tuple's lock while it waits.
    SELECT relation::regclass::text AS relation, locktype = 'tuple' AS is_row FROM pg_locks
    WHERE pid = $1::int AND relation IS NOT NULL AND (locktype = 'tuple' OR NOT granted) ORDER BY granted LIMIT 1
)
SELECT waited.relation, coalesce(waited.is_row, true) AS is_row, chain.pid, coalesce(usename::text, '') AS usename,
       coalesce(application_name, '') AS application_name, state,
       (extract(epoch FROM clock_timestamp() - xact_start) * 1000.0)::bigint AS age_ms
FROM chain LEFT JOIN pg_stat_activity ON pg_stat_activity.pid = chain.pid LEFT JOIN waited ON true
ORDER BY pg_catalog.cardinality(pg_blocking_pids(chain.pid)), depth DESC LIMIT 1
