-- Modelled on: saleor/saleor saleor/order, saleor/channel and saleor/warehouse models; own DDL.
-- key uuid; state varchar 'unconfirmed' -> 'expired'; deadline = created_at + minutes of the CHANNEL (NULL: never); expired_at is set;
-- release: by two joins warehouse_stock.quantity_allocated goes DOWN, and the rows of warehouse_allocation are deleted.
CREATE TABLE channel_channel (id int PRIMARY KEY, slug varchar(255) NOT NULL UNIQUE, expire_orders_after int);
CREATE TABLE order_order (id uuid PRIMARY KEY, number int NOT NULL UNIQUE, channel_id int NOT NULL REFERENCES channel_channel, status varchar(32) NOT NULL, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL DEFAULT now(), expired_at timestamptz);
CREATE TABLE order_orderline (id uuid PRIMARY KEY, order_id uuid NOT NULL REFERENCES order_order, quantity int NOT NULL);
CREATE INDEX ON order_orderline (order_id);
CREATE TABLE warehouse_stock (id int PRIMARY KEY, sku varchar(255) NOT NULL, quantity int NOT NULL, quantity_allocated int NOT NULL DEFAULT 0);
CREATE TABLE warehouse_allocation (id serial PRIMARY KEY, order_line_id uuid NOT NULL REFERENCES order_orderline, stock_id int NOT NULL REFERENCES warehouse_stock, quantity_allocated int NOT NULL, UNIQUE (order_line_id, stock_id));
INSERT INTO channel_channel VALUES (1, 'web', 30), (2, 'never', NULL);
-- must close 1..5; not 6,7 (young) 8 (unfulfilled) 9 (its channel never expires) 10 (expired before)
INSERT INTO order_order (id, number, channel_id, status, created_at, expired_at) SELECT ('00000000-0000-0000-0000-0000000000'||lpad(n::text,2,'0'))::uuid, n, CASE n WHEN 9 THEN 2 ELSE 1 END,
  CASE n WHEN 8 THEN 'unfulfilled' WHEN 10 THEN 'expired' ELSE 'unconfirmed' END, now() - CASE WHEN n IN (6,7) THEN interval '1 minute' ELSE interval '2 hours' END, CASE n WHEN 10 THEN now() - interval '1 h' END FROM generate_series(1,10) n;
INSERT INTO order_orderline SELECT id, id, 2 FROM order_order;
INSERT INTO warehouse_stock VALUES (1, 'A', 100, 18);
INSERT INTO warehouse_allocation (order_line_id, stock_id, quantity_allocated) SELECT id, 1, 2 FROM order_order WHERE number < 10;
