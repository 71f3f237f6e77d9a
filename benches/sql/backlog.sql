-- backlog: open orders without items, due in one hour to one day; the same each time
-- $1 bigint how many
INSERT INTO orders (id, due_at)
SELECT 'backlog-' || number, now() + interval '1 hour' + number % 82800::bigint * interval '1 second'
FROM generate_series(1, $1::bigint) AS number;
