-- expire_purchases: expire.sql of the tables without partitions, at first only in the partitions of yesterday, today and tomorrow, where
-- what is due now has its deadline; then, for what was not found there, in all of them.
CREATE FUNCTION expire_purchases(ids text[], path text, traces jsonb)
RETURNS TABLE (order_id text, outcome text, due_at timestamptz, decided_at timestamptz) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    -- PostgreSQL leaves the other partitions out when the statement starts, also of a generic plan: the bounds are parameters.
    since timestamptz := now() - interval '1 day';
    till  timestamptz := now() + interval '1 day';
    answered text[] := '{}';
    expired  bigint[] := '{}';
BEGIN
    LOOP
        FOR order_id, outcome, due_at, decided_at IN
            WITH asked AS MATERIALIZED (
                SELECT it.purchase_no AS key, it.state AS state, it.pay_until AS due_at FROM purchase AS it
                WHERE it.purchase_no = ANY (ids::bigint[]) AND it.pay_until BETWEEN since AND till
                ORDER BY it.purchase_no FOR NO KEY UPDATE SKIP LOCKED
            ), changed AS (
                -- With the deadline, so that the row is looked for in its own partition.
                UPDATE purchase AS it SET state = 90
                FROM asked
                WHERE it.purchase_no = ANY (ARRAY[asked.key]) AND it.pay_until = asked.due_at AND it.pay_until BETWEEN since AND till
                  AND asked.state = 10 AND asked.due_at <= now()
                RETURNING asked.key, asked.due_at, it.state AS state
            ), closed AS (
                -- Nothing has become of a row whose state a BEFORE trigger has kept.
                SELECT * FROM changed WHERE state IS DISTINCT FROM 10
            ), recorded AS (
                INSERT INTO closures (order_id, effect, path, due_at, outcome)
                SELECT key::text, 'expire', path, due_at, 'expired' FROM closed
            ), announced AS (
                INSERT INTO outbox (event, order_id, traceparent, tracestate)
                SELECT 'purchase.expired', key::text, traces -> key::text ->> 'traceparent', traces -> key::text ->> 'tracestate'
                FROM closed
            )
            SELECT key::text,
                   CASE WHEN (key IN (SELECT key FROM closed)) IS TRUE THEN 'done:expired'
                        WHEN state IS DISTINCT FROM 10 THEN 'already_final'
                        ELSE 'not_due' END,
                   due_at,
                   now()
            FROM asked
            UNION ALL
            SELECT it.purchase_no::text, 'busy', it.pay_until, now() FROM purchase AS it
            WHERE (SELECT count(*) FROM asked) < pg_catalog.cardinality(ids)
              AND it.purchase_no = ANY (ids::bigint[]) AND it.pay_until BETWEEN since AND till
              AND it.purchase_no NOT IN (SELECT key FROM asked)
        LOOP
            RETURN NEXT;
            answered := answered || order_id;
            IF outcome = 'done:expired' THEN
                expired := expired || order_id::bigint;
            END IF;
        END LOOP;
        EXIT WHEN since = '-infinity' OR pg_catalog.cardinality(answered) >= pg_catalog.cardinality(ids);
        -- As numbers: an id can come in another spelling than the table's, which is the answer to it.
        ids := ARRAY(SELECT id FROM pg_catalog.unnest(ids) AS id WHERE id::bigint NOT IN (SELECT answer::bigint FROM pg_catalog.unnest(answered) AS answer));
        since := '-infinity';
        till := 'infinity';
    END LOOP;
    -- Once, in the order of the keys, behind both looks: others take them in that order as well.
    WITH back AS MATERIALIZED (
        SELECT stock_key, coalesce(sum(amount), 0) AS amount
        FROM pg_catalog.unnest(expired) AS key CROSS JOIN LATERAL
             (SELECT article_no AS stock_key, pieces AS amount FROM purchase_line AS line
              WHERE line.purchase_no = key OFFSET 0) AS lines
        GROUP BY stock_key
    ), stock AS MATERIALIZED (
        SELECT shelf.article_no AS stock_key, back.amount
        FROM back JOIN article AS shelf ON shelf.article_no = ANY (ARRAY[back.stock_key])
        ORDER BY shelf.article_no FOR NO KEY UPDATE OF shelf
    )
    UPDATE article AS shelf SET on_hand = shelf.on_hand + stock.amount FROM stock
    WHERE shelf.article_no = ANY (ARRAY[stock.stock_key]);
END
$$;
