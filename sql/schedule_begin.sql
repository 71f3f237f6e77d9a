-- schedule_begin: prepares a session that publishes notices. One that hangs loses its connection after 30 s, and with it its
-- locks (PostgreSQL 14 and later). -> channel text (where schedule() notifies)
SELECT 'overdue_scheduled_' || 'scheduled_notices'::regclass::oid::text AS channel,
       (SELECT set_config(name, '30s', false) FROM pg_settings WHERE name = 'idle_session_timeout') AS idle
