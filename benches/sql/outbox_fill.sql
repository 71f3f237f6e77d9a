-- bench_outbox_fill: events to publish, in this order.
-- $1 text[] event names; $2 text[] the order id of each event
INSERT INTO outbox (event, order_id)
SELECT event, order_id FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS made (event, order_id, place) ORDER BY place
