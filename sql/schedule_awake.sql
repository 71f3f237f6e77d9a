-- schedule_awake: transactions need not notify any more. -> boolean
SELECT pg_advisory_unlock(1870100848, 'scheduled_notices'::regclass::oid::int)
