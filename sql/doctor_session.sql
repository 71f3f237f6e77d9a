-- doctor_session: the start-up options that this session lacks, e.g. because of a pooler. Its role or database may set another value,
-- except of search_path.
-- $1 text[] settings, $2 text[] their values -> passed_on boolean, lock_timeout_ms bigint (0: none), lacks text[] (settings)
SELECT coalesce(current_setting('overdue.session', true), '') = 'direct' AS passed_on,
       (SELECT setting::bigint FROM pg_catalog.pg_settings WHERE name = 'lock_timeout') AS lock_timeout_ms,
       ARRAY(SELECT wanted.name FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS wanted (name, value, place)
             LEFT JOIN pg_catalog.pg_settings AS has ON has.name = wanted.name
             WHERE replace(coalesce(has.setting, current_setting(wanted.name, true), ''), ' ', '') <> wanted.value
               AND (wanted.name = 'search_path' OR coalesce(has.source, '') NOT IN ('database', 'user', 'database user'))
             ORDER BY wanted.place) AS lacks
