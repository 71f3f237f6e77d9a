-- expire_overdue: as without partitions. `pay_until >= $3` says nothing new, and leaves out the partitions of days before the page.
SELECT it.purchase_no::text AS order_id, it.pay_until AS due_at FROM purchase AS it
WHERE it.state = 10
  AND it.pay_until <= now() - $2::bigint::float8 * interval '1 millisecond'
  AND it.pay_until >= $3 AND (it.pay_until, it.purchase_no) > ($3, coalesce(nullif($4, '')::bigint, '-9223372036854775808'))
ORDER BY it.pay_until, it.purchase_no LIMIT $1
