-- expire: rows of purchase that are '10' after pay_until become '90', and pieces goes back to article.
-- $1 text[] keys, $2 text what made them due: message, burst or sweep; $3 jsonb traces of their
-- notices (W3C Trace Context), by key
WITH asked AS MATERIALIZED (
    -- Keys are text in messages. The parameter is cast and not the column, so that the index of
    -- the key is used. Rows are locked in the order of the key, so that two statements do not
    -- deadlock; rows that another session has locked are left out.
    SELECT it.purchase_no AS key, it.state AS state, it.pay_until AS due_at, it.ctid AS place
    FROM purchase AS it
    WHERE it.purchase_no = ANY ($1::text[]::bigint[])
    ORDER BY it.purchase_no FOR NO KEY UPDATE SKIP LOCKED
), changed AS (
    -- The guard: only from this state, and after the deadline by the database's clock. A row that
    -- was changed since the statement began is not found at its place: what belongs to it may
    -- have been changed with it, and would be read as it was.
    UPDATE purchase AS it SET state = '90'
    FROM asked
    WHERE it.purchase_no = ANY (ARRAY[asked.key]) AND it.ctid IS NOT DISTINCT FROM asked.place
      AND asked.state = '10' AND asked.due_at <= now()
    RETURNING asked.key, asked.due_at, it.state AS state
), closed AS (
    -- Nothing has become of a row whose state a BEFORE trigger has kept.
    SELECT * FROM changed WHERE state IS DISTINCT FROM '10'
), recorded AS (
    INSERT INTO closures (order_id, effect, path, due_at, outcome)
    SELECT key::text, 'expire', $2, due_at, 'expired' FROM closed
), announced AS (
    INSERT INTO outbox (event, order_id, traceparent, tracestate)
    SELECT 'purchase.expired', key::text, $3::jsonb -> key::text ->> 'traceparent', $3::jsonb -> key::text ->> 'tracestate'
    FROM closed
), back AS MATERIALIZED (
    -- OFFSET 0: row after row, by an index that begins with purchase_no, also if the tables were
    -- empty when this was planned.
    SELECT stock_key, coalesce(sum(amount), 0) AS amount
    FROM closed CROSS JOIN LATERAL
         (SELECT article_no AS stock_key, pieces AS amount FROM purchase_line AS line
          WHERE line.purchase_no = closed.key OFFSET 0) AS lines
    GROUP BY stock_key
), stock AS MATERIALIZED (
    -- Rows that many others share: locked last, in the order of their key, and changed once.
    SELECT shelf.article_no AS stock_key, back.amount
    FROM back JOIN article AS shelf ON shelf.article_no = ANY (ARRAY[back.stock_key])
    ORDER BY shelf.article_no FOR NO KEY UPDATE OF shelf
), released AS (
    UPDATE article AS shelf SET on_hand = shelf.on_hand + stock.amount FROM stock
    WHERE shelf.article_no = ANY (ARRAY[stock.stock_key])
)
SELECT key::text AS order_id,
       -- IN and NOT IN look into a hash table, however few rows the planner expects; a join may
       -- compare each row with each. NOT IN finds nothing beside a NULL: a primary key is none.
       CASE WHEN (key IN (SELECT key FROM closed)) IS TRUE THEN 'done:expired'
            WHEN state IS DISTINCT FROM '10' THEN 'already_final'
            WHEN due_at <= now() AND NOT EXISTS
                 (SELECT FROM purchase AS it WHERE it.purchase_no = ANY (ARRAY[asked.key])
                  AND it.ctid IS NOT DISTINCT FROM asked.place OFFSET 0) THEN 'busy'
            ELSE 'not_due' END AS outcome,
       due_at,
       now() AS decided_at
FROM asked
UNION ALL
-- Locked by another session: the worker asks again until the row is free.
SELECT it.purchase_no::text, 'busy', it.pay_until, now() FROM purchase AS it
WHERE (SELECT count(*) FROM asked) < pg_catalog.cardinality($1)
  AND it.purchase_no = ANY ($1::text[]::bigint[])
  AND it.purchase_no NOT IN (SELECT key FROM asked)
