-- outgoing_lead: of these parts of a table, those whose rows this session publishes from now on until it ends: no other session does.
-- $1 text table, $2 text[] parts -> part text
SELECT part FROM pg_catalog.unnest($2::text[]) AS asked (part)
WHERE pg_try_advisory_lock($1::text::regclass::oid::int, hashtext(part))
