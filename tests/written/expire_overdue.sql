-- expire_overdue: rows of purchase that are '10' after pay_until, oldest first, page by page.
-- $1 bigint rows at the most, $2 bigint grace in milliseconds, $3 timestamptz and $4 text the row
-- before the page: '-infinity' and '' at first. The literal state lets the partial index serve it:
-- CREATE INDEX CONCURRENTLY ON purchase (pay_until, purchase_no) WHERE state = '10';
SELECT it.purchase_no::text AS order_id, it.pay_until AS due_at FROM purchase AS it
WHERE it.state = '10'
  AND it.pay_until <= now() - $2::bigint::float8 * interval '1 millisecond'
  AND (it.pay_until, it.purchase_no) > ($3, coalesce(nullif($4, '')::bigint, '-9223372036854775808'))
ORDER BY it.pay_until, it.purchase_no LIMIT $1
