-- session_opened: checks of a new connection. -> user_name text, closed text (schemas of the search path that the user may not use; NULL:
-- none), encoding text
SELECT quote_ident(current_user::text) AS user_name,
       (SELECT string_agg(quote_ident(nspname::text), ', ' ORDER BY nspname) FROM pg_namespace
        WHERE nspname::text = ANY (string_to_array(replace(current_setting('search_path'), ' ', ''), ','))
          AND NOT has_schema_privilege(oid, 'USAGE')) AS closed,
       current_setting('server_encoding') AS encoding
