-- pause_holders: sessions that still close orders of a timeout, or of its effect. $1 text topology, $2 text timeout, $3 text effect
-- -> pid integer (0: a prepared transaction), application text, client text
SELECT coalesce(pid, 0) AS pid, coalesce(application_name, '?') AS application, coalesce(client_addr::text, 'local') AS client
FROM (
    SELECT hashtextextended(name, '{own}.pauses'::regclass::oid::bigint) FROM (VALUES ($1::text || ' ' || $2::text), ($3::text)) AS names (name)
) AS named (key)
JOIN pg_locks ON classid = ((key >> 32) & 4294967295)::oid AND objid = (key & 4294967295)::oid
LEFT JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND objsubid = 1 AND granted
  AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
ORDER BY pid
