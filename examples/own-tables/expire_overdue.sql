-- expire_overdue: purchases past their deadline that nobody has expired, oldest first, page by page.
-- $1 bigint purchases at the most, $2 bigint grace in milliseconds, $3 timestamptz and $4 text the purchase before the page:
-- '-infinity' and '' at first. The literal state lets the partial index serve it.
SELECT purchase_no::text AS order_id, pay_until AS due_at FROM purchase
WHERE state = 10 AND pay_until <= now() - $2::bigint::float8 * interval '1 millisecond'
  AND (pay_until, purchase_no) > ($3, nullif($4, '')::bigint)
ORDER BY pay_until, purchase_no LIMIT $1
