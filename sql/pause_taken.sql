-- pause_taken: waits for the transactions that close orders of a timeout and began before its pause was committed.
-- $1 text topology, $2 text timeout
SELECT pg_advisory_xact_lock(hashtextextended($1::text || ' ' || $2::text, 'pauses'::regclass::oid::bigint))
