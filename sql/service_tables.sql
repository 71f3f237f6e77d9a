-- service_tables: whether all tables of a run exist: ours and the reference order tables.
-- -> complete boolean
SELECT bool_and(to_regclass(name) IS NOT NULL) AS complete
FROM pg_catalog.unnest(ARRAY['orders', 'order_items', 'stock', '{own}.closures', '{own}.outbox', '{own}.outbox_refused']) AS name
