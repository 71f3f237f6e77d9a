-- 01 02 03 04 05
SELECT string_agg(right(id::text, 2), ' ' ORDER BY id) FROM wallets WHERE status = 1 AND terminated_at > '2026-01-06' AND updated_at > '2026-01-06';
-- 5
SELECT sum(lock_version)::text FROM wallets;
