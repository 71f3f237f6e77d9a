-- 01 02 03 04 05
SELECT string_agg(right(id::text, 2), ' ' ORDER BY id) FROM card_hold WHERE voided_at >= created_at + interval '1 h';
-- 1/A 14.00 v2, 1/B 8.00 v2, 2/A 10.50 v1
SELECT string_agg(tenant || '/' || number || ' ' || balance || ' v' || version, ', ' ORDER BY tenant, number) FROM gift_card;
-- 17.50
SELECT sum(change)::text FROM ledger;
