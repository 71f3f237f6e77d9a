-- expire: purchases that nobody paid in time become expired, and their pieces go back to the article.
-- $1 text[] purchase numbers, $2 text what made them due: message, burst or sweep
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
    WHERE purchase.purchase_no = ANY (ARRAY[asked.purchase_no]) AND asked.state = 10 AND asked.pay_until <= now()
    RETURNING purchase.purchase_no, purchase.pay_until
), recorded AS (
    INSERT INTO closures (order_id, effect, path, due_at, outcome)
    SELECT purchase_no::text, 'expire', $2, pay_until, 'expired' FROM expired
), announced AS (
    INSERT INTO outbox (event, order_id) SELECT 'purchase.expired', purchase_no::text FROM expired
), back AS MATERIALIZED (
    -- OFFSET 0: purchase after purchase, by an index that begins with purchase_no, also where the tables were empty when this was
    -- planned.
    SELECT article_no, sum(pieces)::integer AS pieces
    FROM expired CROSS JOIN LATERAL
         (SELECT article_no, pieces FROM purchase_line WHERE purchase_no = expired.purchase_no OFFSET 0) AS lines
    GROUP BY article_no
), shelves AS MATERIALIZED (
    -- The rows that many purchases share: one update each, last, and in the order of their key.
    SELECT article.article_no, back.pieces FROM back JOIN article ON article.article_no = ANY (ARRAY[back.article_no])
    ORDER BY article.article_no FOR NO KEY UPDATE OF article
), released AS (
    UPDATE article SET on_hand = on_hand + shelves.pieces FROM shelves
    WHERE article.article_no = ANY (ARRAY[shelves.article_no])
)
SELECT purchase_no::text AS order_id,
       -- A look into a hash table, as is NOT IN below, however few rows are expected; a join may compare each with each. NOT IN
       -- finds nothing where one of the values is NULL: a primary key never is.
       CASE WHEN (purchase_no IN (SELECT purchase_no FROM expired)) IS TRUE THEN 'done:expired'
            WHEN state <> 10 THEN 'already_final'
            ELSE 'not_due' END AS outcome,
       pay_until AS due_at,
       now() AS decided_at
FROM asked
UNION ALL
-- Locked by somebody else: asked for again until it is free.
SELECT purchase_no::text, 'busy', pay_until, now() FROM purchase
WHERE (SELECT count(*) FROM asked) < pg_catalog.cardinality($1)
  AND purchase_no = ANY ($1::text[]::bigint[])
  AND purchase_no NOT IN (SELECT purchase_no FROM asked)
