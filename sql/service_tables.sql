-- service_tables: whether every table of a run is there, ours and the reference order tables.
-- -> complete boolean
SELECT bool_and(to_regclass(name) IS NOT NULL) AS complete
FROM pg_catalog.unnest(ARRAY['orders', 'order_items', 'stock', '{own}.closures', '{own}.outbox', '{own}.outbox_refused']) AS name
