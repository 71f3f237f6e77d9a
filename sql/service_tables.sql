-- service_tables: whether every table of a run is there, ours and the reference order tables, with their latest columns.
-- -> complete boolean
SELECT bool_and(to_regclass(name) IS NOT NULL)
       AND (SELECT count(*) = 2 FROM pg_attribute
            WHERE (attrelid, attname) IN ((to_regclass('orders'), 'confirm_by'), (to_regclass('closures'), 'outcome'))) AS complete
FROM unnest(ARRAY['orders', 'order_items', 'stock', 'closures', 'outbox', 'outbox_refused', 'outbox_retries']) AS name
