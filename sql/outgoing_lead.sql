-- outgoing_lead: of these parts of a table, those whose rows this session publishes from now on until it ends, or its transaction: no
-- other session does.
-- $1 text table, $2 text[] parts, $3 boolean until the transaction ends -> part text
SELECT part FROM pg_catalog.unnest($2::text[]) AS asked (part)
WHERE CASE WHEN $3 THEN pg_try_advisory_xact_lock($1::text::regclass::oid::int, hashtext(part))
           ELSE pg_try_advisory_lock($1::text::regclass::oid::int, hashtext(part)) END
