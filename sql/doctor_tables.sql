-- doctor_tables: our existing tables, and the rights of a worker that this user lacks.
-- $1 text the schema of our tables -> name text, found bool, lacks text[]
SELECT name, found IS NOT NULL AS found,
       coalesce(pg_catalog.array_agg(privilege ORDER BY privilege)
                FILTER (WHERE found IS NOT NULL AND NOT has_table_privilege(found, privilege)), '{}') AS lacks
FROM (VALUES ('actions', 'SELECT'), ('actions', 'DELETE'),
             ('closures', 'SELECT'), ('closures', 'INSERT'), ('closures', 'DELETE'),
             ('dropped_messages', 'SELECT'), ('dropped_messages', 'DELETE'),
             ('outbox', 'SELECT'), ('outbox', 'INSERT'), ('outbox', 'DELETE'),
             ('outbox_refused', 'SELECT'), ('outbox_refused', 'INSERT'), ('outbox_refused', 'UPDATE'), ('outbox_refused', 'DELETE'),
             ('pauses', 'SELECT'), ('pauses', 'UPDATE'))
         AS used (name, privilege),
     LATERAL (SELECT (SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                      WHERE c.relname = name::name AND n.nspname = $1::text::name AND has_schema_privilege(n.oid, 'USAGE')) AS found) AS looked_up
GROUP BY name, found
ORDER BY name
