-- expire: purchases that nobody paid in time become expired, and their pieces go back to the article.
-- $1 text[] purchase numbers, $2 text what made them due: message, ahead or sweep
WITH asked AS MATERIALIZED (
    -- Order ids are text on the wire. The cast stands at the parameter, so that the primary key's index is used. In the order
    -- of the key, so that two of these do not deadlock; what somebody else has locked is passed over.
    SELECT purchase_no, state, pay_until FROM purchase
    WHERE purchase_no = ANY ($1::text[]::bigint[])
    ORDER BY purchase_no FOR NO KEY UPDATE SKIP LOCKED
), expired AS (
    -- The guard: only from this state, and only after the deadline by the database's clock.
    UPDATE purchase SET state = 90, expired_at = clock_timestamp()
    FROM asked
    WHERE purchase.purchase_no = asked.purchase_no AND asked.state = 10 AND asked.pay_until <= now()
    RETURNING purchase.purchase_no, purchase.pay_until
), recorded AS (
    INSERT INTO closures (order_id, effect, path, due_at, outcome)
    SELECT purchase_no::text, 'expire', $2, pay_until, 'expired' FROM expired
), announced AS (
    INSERT INTO outbox (event, order_id) SELECT 'purchase.expired', purchase_no::text FROM expired
), back AS MATERIALIZED (
    SELECT article_no, sum(pieces)::integer AS pieces FROM purchase_line JOIN expired USING (purchase_no) GROUP BY article_no
), shelves AS MATERIALIZED (
    -- The rows that many purchases share: one update each, last, and in the order of their key.
    SELECT article_no, back.pieces FROM article JOIN back USING (article_no)
    ORDER BY article_no FOR NO KEY UPDATE OF article
), released AS (
    UPDATE article SET on_hand = on_hand + shelves.pieces FROM shelves WHERE article.article_no = shelves.article_no
)
SELECT asked.purchase_no::text AS order_id,
       CASE WHEN expired.purchase_no IS NOT NULL THEN 'done:expired'
            WHEN asked.state <> 10 THEN 'already_final'
            ELSE 'not_due' END AS outcome,
       asked.pay_until AS due_at,
       now() AS decided_at
FROM asked LEFT JOIN expired USING (purchase_no)
UNION ALL
-- Locked by somebody else: asked for again until it is free.
SELECT purchase_no::text, 'busy', pay_until, now() FROM purchase
WHERE (SELECT count(*) FROM asked) < cardinality($1)
  AND purchase_no = ANY ($1::text[]::bigint[])
  AND NOT EXISTS (SELECT FROM asked WHERE asked.purchase_no = purchase.purchase_no)
