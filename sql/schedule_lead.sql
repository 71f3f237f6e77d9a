-- schedule_lead: whether this session is the one that publishes, from now on until it ends. -> boolean
SELECT pg_try_advisory_lock(1870100847, 'scheduled_notices'::regclass::oid::int)
