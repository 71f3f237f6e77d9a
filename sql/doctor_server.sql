-- doctor_server: facts about the server and this session.
-- -> version_num int, tls bool, standby bool, read_only bool, max_connections bigint, reserved bigint, used bigint,
--    commit_timestamps bool, db_user text (quoted), superuser bool
SELECT current_setting('server_version_num')::int AS version_num,
       coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS tls,
       pg_is_in_recovery() AS standby,
       current_setting('transaction_read_only')::bool AS read_only,
       current_setting('max_connections')::bigint AS max_connections,
       current_setting('superuser_reserved_connections')::bigint
           + coalesce(current_setting('reserved_connections', true)::bigint, 0) AS reserved,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS used,
       current_setting('track_commit_timestamp')::bool AS commit_timestamps,
       quote_ident(current_user::text) AS db_user,
       current_setting('is_superuser')::bool AS superuser
