-- burst_lock: locks the burst of an effect until the transaction ends, if no other transaction has the lock. All workers on the same
-- tables use this lock.
-- $1 text effect -> is_taken boolean
SELECT pg_try_advisory_xact_lock(hashtextextended('burst ' || $1::text, '{own}.closures'::regclass::oid::bigint)) AS is_taken
