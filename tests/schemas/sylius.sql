-- Modelled on: Sylius/Sylius src/Sylius/Component/Order, Core and Inventory; own DDL (Doctrine on PostgreSQL).
-- key int; state in two columns; deadline = checkout_completed_at timestamp(0) WITHOUT tz, NULL for carts, + 5 days (configuration);
-- release: on_hold goes DOWN, only where the variant is tracked.
CREATE TABLE sylius_product_variant (id int PRIMARY KEY, code varchar(255) NOT NULL UNIQUE, on_hold int NOT NULL, on_hand int NOT NULL, tracked boolean NOT NULL);
CREATE TABLE sylius_order (id int PRIMARY KEY, number varchar(255), state varchar(255) NOT NULL, payment_state varchar(255) NOT NULL, checkout_completed_at timestamp(0), created_at timestamp(0) NOT NULL, updated_at timestamp(0));
CREATE TABLE sylius_order_item (id int PRIMARY KEY, order_id int NOT NULL REFERENCES sylius_order, variant_id int NOT NULL REFERENCES sylius_product_variant, quantity int NOT NULL);
CREATE INDEX ON sylius_order_item (order_id);
INSERT INTO sylius_product_variant VALUES (1, 'A', 18, 100, true), (2, 'B', 0, 0, false);
-- must close 1..5; not 6 (4 days) 7 (a cart) 8 (paid) 9 (cancelled) 10 (fulfilled)
INSERT INTO sylius_order SELECT n, '#'||n, CASE n WHEN 7 THEN 'cart' WHEN 9 THEN 'cancelled' WHEN 10 THEN 'fulfilled' ELSE 'new' END, CASE n WHEN 7 THEN 'cart' WHEN 8 THEN 'paid' WHEN 9 THEN 'cancelled' WHEN 10 THEN 'paid' ELSE 'awaiting_payment' END,
  CASE WHEN n <> 7 THEN (now() AT TIME ZONE 'UTC') - CASE n WHEN 6 THEN interval '4 days' ELSE interval '6 days' END END, (now() AT TIME ZONE 'UTC') - interval '7 days' FROM generate_series(1,10) n;
INSERT INTO sylius_order_item SELECT n, n, CASE n WHEN 5 THEN 2 ELSE 1 END, 2 FROM generate_series(1,10) n;
