-- schedule_wanted: whether another session is to publish (schedule_want.sql). -> boolean
SELECT CASE WHEN pg_try_advisory_lock(1870100849, 'scheduled_notices'::regclass::oid::int)
            THEN NOT pg_advisory_unlock(1870100849, 'scheduled_notices'::regclass::oid::int) ELSE true END
