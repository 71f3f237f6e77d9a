-- pauses_still: the pause without a rate for which refuse_paused() would fail.
-- $1 text topology, $2 text timeout (NULL: any of the effect), $3 text effect -> reason text, rest_ms bigint
SELECT concat(timeout, ' is paused until ', ends_at, ' by ', paused_by, ': ', why) AS reason,
       pg_catalog.ceil(1000.0 * extract(epoch FROM least(ends_at, clock_timestamp() + interval '10 years') - clock_timestamp()))::bigint AS rest_ms
FROM {own}.pauses
WHERE ((topology = $1 AND timeout = $2) OR ($2 IS NULL AND effect = $3)) AND per_second IS NULL AND ends_at > clock_timestamp()
ORDER BY ends_at DESC LIMIT 1
