-- Modelled on: tables that keep everything in one document; own DDL.
-- key uuid; state and deadline (epoch milliseconds) in JSONB; closing changes one field of the document; rows with a dispute in another table stay open.
CREATE TABLE contracts (id uuid PRIMARY KEY, doc jsonb NOT NULL);
CREATE TABLE disputes (contract_id uuid PRIMARY KEY);
-- must close 1..5; not 6,7 (later) 8 (signed) 9 (without an end) 10 (a dispute)
INSERT INTO contracts SELECT ('00000000-0000-0000-0000-0000000000'||lpad(n::text,2,'0'))::uuid, jsonb_build_object('state', CASE n WHEN 8 THEN 'signed' ELSE 'offered' END, 'party', 'p'||n)
  || CASE n WHEN 9 THEN '{}' ELSE jsonb_build_object('until', (extract(epoch FROM now() + CASE WHEN n IN (6,7) THEN interval '1 h' ELSE interval '-1 h' END) * 1000)::bigint) END FROM generate_series(1,10) n;
INSERT INTO disputes VALUES ('00000000-0000-0000-0000-000000000010');
