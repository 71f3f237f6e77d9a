-- schedule_callers: triggers that fail when a topology has these timeouts no more: they call schedule_row() with one that no other topology
-- has. Of a partitioned table the trigger, and not its copies on the partitions.
-- $1 text[] timeouts, $2 text topology
-- -> table_name text, trigger_name text (both as SQL has them), timeout text, is_ours boolean (`overdue database init --trigger` has made
--    it, and this user may drop it)
SELECT tgrelid::regclass::text AS table_name, quote_ident(tgname::text) AS trigger_name, timeout,
       coalesce(tgrelid = to_regclass('orders'::text)::oid, false) AND pg_has_role(relowner, 'USAGE'::text)
           AND tgname IN ('schedule_new_unpaid', 'schedule_changed_unpaid', 'schedule_new_paid', 'schedule_changed_paid',
                          'schedule_new_shipped', 'schedule_changed_shipped') AS is_ours
FROM pg_trigger
JOIN pg_class ON pg_class.oid = tgrelid
JOIN pg_catalog.unnest($1::text[]) AS removed (timeout)
    ON substring(tgargs FROM 1 FOR octet_length(timeout) + 1) = convert_to(timeout, getdatabaseencoding()) || '\x00'::bytea
WHERE tgfoid = to_regprocedure('schedule_row()'::text)::oid AND tgparentid = 0::oid
    AND NOT EXISTS (SELECT FROM schedule_timeouts WHERE name = timeout AND topology <> $2::text AND removed_at IS NULL)
ORDER BY table_name, trigger_name
