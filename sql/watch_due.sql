-- watch_due: orders by closing path whose deadline was in the last minute. A closure is never older than its deadline, so the index by
-- time finds them. $1 text effect, $2 bigint the minute in milliseconds -> path text, orders bigint
SELECT path, count(*) AS orders FROM {own}.closures
WHERE effect = $1 AND closed_at >= now() - $2::bigint::float8 * interval '1 millisecond'
  AND due_at >= now() - $2::bigint::float8 * interval '1 millisecond'
GROUP BY path
