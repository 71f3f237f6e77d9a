-- schedule_lacks: what this user lacks to publish what schedule() writes. -> lacks text (of the first table), no row where nothing
SELECT CASE WHEN found IS NULL THEN 'there is no table ' || name || ' along database.search_path'
            ELSE 'the user lacks ' || string_agg(privilege, ', ' ORDER BY privilege) || ' on ' || name END AS lacks
FROM (VALUES ('schedule_timeouts', 'SELECT'), ('schedule_timeouts', 'INSERT'),
             ('scheduled_notices', 'SELECT'), ('scheduled_notices', 'INSERT'), ('scheduled_notices', 'DELETE'),
             ('scheduled_notices_refused', 'SELECT'), ('scheduled_notices_refused', 'INSERT'), ('scheduled_notices_refused', 'DELETE'))
         AS used (name, privilege),
     LATERAL (SELECT to_regclass(name) AS found) AS looked_up
WHERE found IS NULL OR NOT has_table_privilege(found, privilege)
GROUP BY name, found
ORDER BY name LIMIT 1
