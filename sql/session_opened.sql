-- session_opened: of each new connection. -> is_own boolean (what is set for the session stays with it), user_name text,
-- closed text (schemas of the search path that it may not use; NULL: none)
SELECT coalesce(current_setting('overdue.session', true), '') = 'on' AS is_own,
       quote_ident(current_user::text) AS user_name,
       (SELECT string_agg(quote_ident(nspname::text), ', ' ORDER BY nspname) FROM pg_namespace
        WHERE nspname::text = ANY (string_to_array(replace(current_setting('search_path'), ' ', ''), ','))
          AND NOT has_schema_privilege(oid, 'USAGE')) AS closed
