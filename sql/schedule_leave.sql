-- schedule_leave: another session may publish from now on, and is notified. -> boolean
SELECT pg_advisory_unlock(1870100847, 'scheduled_notices'::regclass::oid::int) AS left,
       pg_notify('overdue_scheduled_' || 'scheduled_notices'::regclass::oid::text || '_free', '')
