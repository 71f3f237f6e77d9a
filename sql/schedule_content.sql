-- schedule_content: what the session that publishes runs before it leaves that to another one. -> boolean
SELECT pg_advisory_unlock(1870100849, 'scheduled_notices'::regclass::oid::int)
