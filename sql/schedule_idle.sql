-- schedule_idle: whether every transaction that schedules from now on notifies, as schedule_at() says. Not where one that does
-- not is still open. -> boolean
SELECT pg_try_advisory_lock(1870100848, 'scheduled_notices'::regclass::oid::int)
