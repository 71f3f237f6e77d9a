-- doctor_horizon: what keeps VACUUM from removing newly deleted rows of this database, the oldest first. Sessions of other users
-- are hidden without pg_read_all_stats.
-- -> hidden bigint (number of hidden sessions), kind text (session | prepared | slot | standby; NULL: none), name text,
--    pid int, db_user text (quoted), state text, age_ms bigint (NULL if unknown), transactions bigint (begun since),
--    catalogs boolean (only rows of the system catalogs)
WITH hidden AS (
    -- A standby's session has no database, and may keep rows of every database.
    SELECT count(*) AS hidden FROM pg_stat_activity
    WHERE backend_type IS NULL AND usename IS NOT NULL AND coalesce(datname = current_database(), true)
), holder (kind, name, pid, db_user, state, age_ms, transactions, catalogs) AS (
    -- VACUUM ignores other VACUUMs.
    SELECT 'session', CASE WHEN backend_type = 'client backend' THEN application_name ELSE backend_type END, pid, quote_ident(usename::text),
           coalesce(state, 'active'), (extract(epoch FROM clock_timestamp() - xact_start) * 1000.0)::bigint,
           greatest(age(backend_xmin), age(backend_xid))::bigint, false
    FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND leader_pid IS NULL AND backend_type <> 'walsender'
      AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum)
    UNION ALL
    SELECT 'prepared', gid, NULL, quote_ident(owner::text), NULL,
           (extract(epoch FROM clock_timestamp() - prepared) * 1000.0)::bigint, age(transaction)::bigint, false
    FROM pg_prepared_xacts WHERE database = current_database()
    UNION ALL
    -- PostgreSQL 17 added inactive_since.
    SELECT 'slot', slot_name::text, NULL, NULL, CASE WHEN active THEN 'active' ELSE 'inactive' END,
           (extract(epoch FROM clock_timestamp() - (to_jsonb(slot) ->> 'inactive_since')::timestamptz) * 1000.0)::bigint,
           greatest(age(xmin), age(catalog_xmin))::bigint, xmin IS NULL
    FROM pg_replication_slots AS slot
    WHERE (xmin IS NOT NULL OR catalog_xmin IS NOT NULL) AND wal_status IS DISTINCT FROM 'lost'
    UNION ALL
    SELECT 'standby', application_name, pid, quote_ident(usename::text), state, NULL, age(backend_xmin)::bigint, false
    FROM pg_stat_replication WHERE backend_xmin IS NOT NULL
)
SELECT hidden, kind, coalesce(name, '') AS name, pid, coalesce(db_user, '') AS db_user, coalesce(state, '') AS state,
       CASE WHEN age_ms IS NOT NULL THEN greatest(age_ms, 0::bigint) END AS age_ms, greatest(transactions, 0::bigint) AS transactions, catalogs
FROM hidden LEFT JOIN holder ON true
ORDER BY age_ms DESC NULLS LAST, transactions DESC, name
