-- Modelled on: getlago/lago-api db/structure.sql (wallets); own DDL (Rails on PostgreSQL).
-- key uuid; state int, 0 active, 1 terminated; deadline expiration_at timestamp WITHOUT tz, NULL in some rows; terminated_at is set;
-- optimistic lock: lock_version has to go up.
CREATE TABLE wallets (id uuid PRIMARY KEY, status int NOT NULL DEFAULT 0, credits_balance numeric NOT NULL DEFAULT 0, expiration_at timestamp(6), terminated_at timestamp(6), created_at timestamp(6) NOT NULL, updated_at timestamp(6) NOT NULL, lock_version int NOT NULL DEFAULT 0);
-- must close 1..5; not 6 (later) 7 (never) 8 (terminated) 9 (later) 10 (terminated)
INSERT INTO wallets (id, status, expiration_at, terminated_at, created_at, updated_at) SELECT ('00000000-0000-0000-0000-0000000000'||lpad(n::text,2,'0'))::uuid, CASE WHEN n IN (8,10) THEN 1 ELSE 0 END,
  CASE WHEN n <> 7 THEN (now() AT TIME ZONE 'UTC') + CASE WHEN n IN (6,9) THEN interval '1 day' ELSE interval '-10m' END END, CASE WHEN n IN (8,10) THEN '2026-01-05 17:00'::timestamp END, '2026-01-01', '2026-01-01' FROM generate_series(1,10) n;
