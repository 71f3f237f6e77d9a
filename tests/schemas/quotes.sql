-- Modelled on: odoo/odoo addons/sale/models/sale_order.py; own DDL.
-- key int; state varchar with two waiting values 'draft', 'sent' -> 'cancel'; deadline validity_date, a DATE: over at the END of that day in the company's zone.
CREATE TABLE sale_order (id int PRIMARY KEY, name varchar NOT NULL, state varchar, validity_date date, write_date timestamp);
-- must close 1..5 (yesterday); not 6,7 (today) 8 (sold) 9 (without an end) 10 (cancelled)
INSERT INTO sale_order SELECT n, 'S'||n, CASE WHEN n IN (1,2,6) THEN 'draft' WHEN n = 8 THEN 'sale' WHEN n = 10 THEN 'cancel' ELSE 'sent' END,
  CASE WHEN n <> 9 THEN (now() AT TIME ZONE 'Europe/Berlin')::date - CASE WHEN n IN (6,7) THEN 0 ELSE 1 END END FROM generate_series(1,10) n;
