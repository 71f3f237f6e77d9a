-- schedule_callers: triggers that call schedule_row() with a timeout that the topology had, is not in $1, and no other topology has. These
-- triggers fail, or will fail once the topology has only these timeouts. Without disabled triggers, and without the copies on partitions.
-- $1 text[] timeouts, $2 text topology
-- -> table_name text, trigger_name text (both as SQL has them), timeout text, is_ours boolean (`overdue database init --trigger` created
--    the trigger, and this user may drop it)
SELECT tgrelid::regclass::text AS table_name, quote_ident(tgname::text) AS trigger_name, gone.name AS timeout,
       coalesce(tgrelid = to_regclass('orders'::text)::oid, false) AND pg_has_role(relowner, 'USAGE'::text)
           AND tgname IN ('schedule_new_unpaid', 'schedule_changed_unpaid', 'schedule_new_paid', 'schedule_changed_paid',
                          'schedule_new_shipped', 'schedule_changed_shipped') AS is_ours
FROM pg_trigger
JOIN pg_class ON pg_class.oid = tgrelid
JOIN {own}.schedule_timeouts AS gone
    ON substring(tgargs FROM 1 FOR octet_length(gone.name) + 1) = convert_to(gone.name, getdatabaseencoding()) || '\x00'::bytea
WHERE tgfoid = to_regprocedure('{own}.schedule_row()'::text)::oid AND tgparentid = 0::oid AND tgenabled <> 'D'::"char"
    AND gone.topology = $2::text AND gone.name <> ALL ($1::text[])
    AND NOT EXISTS (SELECT FROM {own}.schedule_timeouts WHERE name = gone.name AND topology <> $2::text AND removed_at IS NULL)
ORDER BY table_name, trigger_name
