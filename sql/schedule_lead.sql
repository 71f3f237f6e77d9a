-- schedule_lead: of these timeouts, those whose notices this session publishes from now on until it ends: no other session does.
-- $1 text[] timeouts -> timeout text
SELECT timeout FROM pg_catalog.unnest($1::text[]) AS asked (timeout)
WHERE pg_try_advisory_lock('scheduled_notices'::regclass::oid::int, hashtext(timeout))
