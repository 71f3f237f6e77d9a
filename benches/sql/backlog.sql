-- backlog: open orders without items, due in three hours to 26, none of them before the measurement is over; the same each time
-- $1 bigint how many
INSERT INTO orders (id, due_at)
SELECT 'backlog-' || number, now() + interval '3 hours' + number % 82800::bigint * interval '1 second'
FROM generate_series(1, $1::bigint) AS number;
