-- outbox_begin: a transaction that only one relay at a time is in; the others wait in line.
BEGIN;
SELECT pg_advisory_xact_lock(1870100847, 'outbox'::regclass::oid::int)
