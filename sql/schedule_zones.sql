-- schedule_zones: triggers that call schedule_row() without a time zone, for a column that has none: the instant depends on the session
-- that writes the row. Without disabled triggers, and without the copies on partitions.
-- $1 text the schema of our tables -> table_name text, trigger_name text, column_name text (as SQL has them), column_type text,
--    write text (creates the trigger again, with zone UTC), session_zone text, east_s bigint (seconds by which this zone is ahead of UTC)
SELECT tgrelid::regclass::text AS table_name, quote_ident(tgname::text) AS trigger_name, quote_ident(attname::text) AS column_name,
       format_type(base.oid, NULL::int) AS column_type,
       CASE WHEN tgconstraint <> 0::oid THEN 'DROP TRIGGER '::text || quote_ident(tgname::text) || ' ON '::text || tgrelid::regclass::text || '; '::text ELSE ''::text END
           || regexp_replace(regexp_replace(
               replace(pg_get_triggerdef(pg_trigger.oid), 'EXECUTE FUNCTION schedule_row('::text,
                       'EXECUTE FUNCTION '::text || quote_ident(nspname::text) || '.schedule_row('::text),
               '^CREATE TRIGGER'::text, 'CREATE OR REPLACE TRIGGER'::text), '[)]$'::text, ', ''UTC'');'::text) AS write,
       current_setting('TimeZone'::text) AS session_zone,
       extract(timezone FROM now())::bigint AS east_s
FROM pg_trigger
JOIN pg_proc ON pg_proc.oid = tgfoid
JOIN pg_namespace ON pg_namespace.oid = pronamespace
JOIN pg_attribute ON attrelid = tgrelid AND attnum > 0::smallint AND NOT attisdropped
JOIN pg_type AS declared ON declared.oid = atttypid
JOIN pg_type AS base ON base.oid = coalesce(nullif(declared.typbasetype, 0::oid), declared.oid)
WHERE proname = 'schedule_row'::name AND nspname = $1::text::name AND tgparentid = 0::oid AND tgenabled <> 'D'::"char" AND tgnargs = 3::smallint
    AND base.oid IN ('timestamp'::regtype::oid, 'date'::regtype::oid)
    AND split_part(encode(tgargs, 'escape'::text), '\000'::text, 3)
        = encode(convert_to(attname::text, getdatabaseencoding()), 'escape'::text)
ORDER BY table_name, trigger_name
