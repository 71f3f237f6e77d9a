-- k10 k6 k7 k8 k9
SELECT string_agg(key, ' ' ORDER BY key) FROM idempotency_keys;
