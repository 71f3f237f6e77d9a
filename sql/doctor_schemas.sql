-- doctor_schemas: the existing schemas of the search path, whether this user may use them, and the other users who may create
-- objects in them. Such an object can replace an object of PostgreSQL.
-- -> name text, may_use boolean, creators text[] (quoted; without its owner, its members and this user)
SELECT quote_ident(nspname::text) AS name, has_schema_privilege(pg_namespace.oid, 'USAGE') AS may_use,
       ARRAY(SELECT DISTINCT coalesce(quote_ident(rolname::text), 'PUBLIC')
             FROM aclexplode(nspacl) AS granted LEFT JOIN pg_roles ON pg_roles.oid = grantee
             WHERE privilege_type = 'CREATE' AND grantee NOT IN (nspowner, current_user::regrole::oid)
             ORDER BY 1) AS creators
FROM pg_namespace
WHERE nspname::text = ANY (string_to_array(replace(current_setting('search_path'), ' ', ''), ','))
ORDER BY nspname
