-- open_orders: counts open orders, overdue or not; around the overdue_sql of an effect, with a negative grace.
-- $1 to $4 as for overdue_sql, $5 bigint grace in milliseconds up to which orders get a notice, $6 bigint most bytes of an order id
-- -> orders bigint, overdue bigint, first_due and last_due timestamptz, unusable bigint (id invalid in a message), far bigint
SELECT count(*) FILTER (WHERE listed) AS orders, count(*) FILTER (WHERE listed AND due_at <= now()) AS overdue,
       min(due_at) FILTER (WHERE listed) AS first_due, max(due_at) FILTER (WHERE listed) AS last_due,
       count(*) FILTER (WHERE near IS NOT FALSE AND usable IS NOT TRUE) AS unusable, count(*) FILTER (WHERE NOT near) AS far
FROM (SELECT due_at, usable, near, usable AND near AS listed
      FROM (SELECT due_at, due_at <= now() - $5::bigint::float8 * interval '1 millisecond' AS near,
                   -- White space and control characters are invalid.
                   octet_length(order_id) BETWEEN 1 AND $6::bigint AND due_at IS NOT NULL
                       AND order_id !~ '[\u0001-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]' AS usable
            FROM (
{sql}
) AS open (order_id, due_at)) AS asked) AS sorted
