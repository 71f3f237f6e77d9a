-- pause_taken: waits for transactions that close orders of a timeout, or of its effect, and began before the pause was committed.
-- $1 text topology, $2 text timeout, $3 text effect
SELECT pg_advisory_xact_lock(hashtextextended($1::text || ' ' || $2::text, '{own}.pauses'::regclass::oid::bigint)),
       pg_advisory_xact_lock(hashtextextended($3::text, '{own}.pauses'::regclass::oid::bigint))
