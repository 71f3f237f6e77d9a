-- Modelled on: invoices of Lightning nodes (lightningnetwork/lnd invoices/sql); own DDL.
-- key text; state smallint: 0 open, 1 settled, 2 cancelled, 3 accepted; deadline = creation_date + expiry, seconds since 1970 and seconds.
CREATE TABLE invoices (hash text PRIMARY KEY, amount_msat bigint NOT NULL, state smallint NOT NULL, creation_date bigint NOT NULL, expiry int NOT NULL, settled_at timestamp);
-- must close 1..5; not 6,7 (one hour) 8 (settled) 9 (accepted) 10 (cancelled)
INSERT INTO invoices SELECT 'h'||lpad(n::text,2,'0'), 1000, CASE n WHEN 8 THEN 1 WHEN 9 THEN 3 WHEN 10 THEN 2 ELSE 0 END, extract(epoch FROM now())::bigint - 600, CASE WHEN n IN (6,7) THEN 3600 ELSE 60 END, NULL FROM generate_series(1,10) n;
