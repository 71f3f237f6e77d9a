-- bench_outbox_fill: events to publish, in this order.
-- $1 text[] event names; for each of them $2 text[] the order id
INSERT INTO outbox (event, order_id)
SELECT event, order_id FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS made (event, order_id, place) ORDER BY place
