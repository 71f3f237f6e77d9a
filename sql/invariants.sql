-- invariants: rules for the orders and the stock whose ids begin with a prefix; they must hold after any fault.
-- $1 text prefix ('' is everything), $2 bigint units of each SKU before the first order,
-- $3 boolean whether every order has had the time to become final,
-- $4 text[] order ids, $5 text[] the answers that the order service got about each of them, one entry per request:
--    created | taken, refused (its payment) | unknown (no answer); without any, answers are not checked
-- -> what text, broken bigint (0: it holds), example text (NULL: it holds); a row per invariant
WITH those AS MATERIALIZED (
    SELECT * FROM orders WHERE starts_with(id, $1)
), unpaid AS MATERIALIZED (
    -- Unpaid orders are few. `those` may have a million rows, which must not be read again for each refused payment.
    SELECT * FROM those WHERE status = 'unpaid'
), closed AS MATERIALIZED (
    -- The commit time is NULL if the server does not keep it.
    SELECT *, CASE WHEN current_setting('track_commit_timestamp')::boolean THEN pg_xact_commit_timestamp(xmin) END AS committed_at
    FROM {own}.closures WHERE starts_with(order_id, $1)
), shelves AS MATERIALIZED (
    SELECT stock.sku, available, reserved, sold,
           coalesce(sum(qty) FILTER (WHERE status = 'unpaid'), 0)::bigint AS in_unpaid,
           coalesce(sum(qty) FILTER (WHERE status IN ('paid', 'shipped', 'completed')), 0)::bigint AS in_paid
    FROM stock LEFT JOIN (order_items JOIN those ON those.id = order_id) USING (sku)
    WHERE starts_with(stock.sku, $1) GROUP BY stock.sku
), answered AS MATERIALIZED (
    SELECT id, bool_or(answer = 'taken') AS taken, bool_or(answer = 'refused') AS refused, bool_or(answer = 'unknown') AS unknown
    FROM unnest($4::text[], $5::text[]) AS asked (id, answer) GROUP BY id
)
SELECT 'no order is closed twice' AS what, count(*) AS broken, min(example) AS example FROM (
    SELECT order_id || ', ' || count(*)::text || ' times' FROM closed GROUP BY order_id HAVING count(*) > 1
) AS found (example)
UNION ALL
SELECT 'no order is closed before its deadline', count(*), min(example) FROM (
    SELECT order_id || ', ' || (due_at - least(closed_at, committed_at))::text || ' before'
    FROM closed WHERE least(closed_at, committed_at) < due_at
    UNION ALL
    SELECT id || ', ' || (due_at - closed_at)::text || ' before' FROM those WHERE closed_at < due_at
) AS found (example)
UNION ALL
SELECT 'the status of an order is the outcome of its closure', count(*), min(example) FROM (
    SELECT those.id || ' is ' || status || ', its closure says ' || coalesce(outcome, 'nothing')
    FROM those LEFT JOIN closed ON order_id = those.id WHERE status <> outcome OR status = 'closed' AND outcome IS NULL
) AS found (example)
UNION ALL
SELECT 'no order is paid and closed', count(*), min(id) FROM those WHERE paid_at IS NOT NULL AND closed_at IS NOT NULL
UNION ALL
SELECT 'no order is unpaid after its deadline', count(*), min(id || ', ' || (now() - due_at)::text || ' after')
FROM unpaid WHERE due_at < now() HAVING $3
UNION ALL
SELECT 'no stock is lost or made', count(*), min(sku || ': ' || available::text || ' + ' || reserved::text || ' + ' || sold::text || ' is not ' || $2::bigint::text)
FROM shelves WHERE available + reserved + sold <> $2::bigint
UNION ALL
SELECT 'stock is reserved by unpaid orders, and sold by paid ones', count(*),
       min(sku || ': ' || reserved::text || ' reserved, ' || in_unpaid::text || ' in unpaid orders; '
           || sold::text || ' sold, ' || in_paid::text || ' in paid orders')
FROM shelves WHERE (reserved, sold) <> (in_unpaid, in_paid)
UNION ALL
SELECT 'every order that was created is there', count(*), min(answered.id)
FROM answered LEFT JOIN those USING (id) WHERE those.id IS NULL HAVING pg_catalog.cardinality($4) > 0
UNION ALL
SELECT 'an order is paid if its payment was taken, and only then', count(*), min(id || ' is ' || status) FROM (
    SELECT id, status, coalesce(taken, false) AS taken, coalesce(unknown, false) AS unknown,
           status IN ('paid', 'shipped', 'completed', 'cancelled') AS paid
    FROM those LEFT JOIN answered USING (id)
) AS payments WHERE taken AND NOT paid OR paid AND NOT taken AND NOT unknown HAVING pg_catalog.cardinality($4) > 0
UNION ALL
SELECT 'no payment of an unpaid order is refused', count(*), min(id)
FROM answered JOIN unpaid USING (id) WHERE refused HAVING pg_catalog.cardinality($4) > 0
