-- schedule_want: this session is to publish, where a notice was set aside for a timeout that it knows: until it ends its lock says so.
-- $1 text[] timeouts -> boolean
SELECT CASE WHEN EXISTS (SELECT FROM scheduled_notices_refused WHERE unknown_timeout AND timeout = ANY ($1))
            THEN pg_try_advisory_lock(1870100849, 'scheduled_notices'::regclass::oid::int) ELSE false END
