-- doctor_tables: our tables along the search path, and the rights of a worker on them that this user lacks.
-- -> name text, found bool, lacks text[]
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
     LATERAL (SELECT to_regclass(name)::oid AS found) AS looked_up
GROUP BY name, found
ORDER BY name
