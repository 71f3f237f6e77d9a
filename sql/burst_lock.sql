-- burst_lock: takes the lock of an effect's burst until the transaction ends, if no other transaction has it: of any worker on
-- the same tables.
-- $1 text effect -> is_taken boolean
SELECT pg_try_advisory_xact_lock(hashtextextended('burst ' || $1::text, '{own}.closures'::regclass::oid::bigint)) AS is_taken
