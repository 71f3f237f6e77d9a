-- doctor_lock_timeout: of the session that asks. -> lock_timeout_ms bigint (0: without end)
SELECT setting::bigint AS lock_timeout_ms FROM pg_catalog.pg_settings WHERE name = 'lock_timeout'
