-- schedule_lacks: the table or right that this user lacks to publish the notices of schedule(), or to count them.
-- $1 boolean whether to publish, $2 text the schema of our tables -> lacks text (of the first table); no row if nothing is missing
SELECT CASE WHEN found IS NULL THEN 'there is no table ' || name || ' along database.search_path'
            ELSE 'the user lacks ' || string_agg(privilege, ', ' ORDER BY privilege) || ' on ' || name END AS lacks
FROM (VALUES ('schedule_timeouts', 'SELECT', true), ('schedule_timeouts', 'INSERT', true),
             ('schedule_timeouts', 'UPDATE', true),
             ('scheduled_notices', 'SELECT', false), ('scheduled_notices', 'DELETE', true),
             ('scheduled_notices_refused', 'SELECT', false), ('scheduled_notices_refused', 'INSERT', true))
         AS used (name, privilege, to_publish),
     LATERAL (SELECT (SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                      WHERE c.relname = name::name AND n.nspname = $2::text::name AND has_schema_privilege(n.oid, 'USAGE')) AS found) AS looked_up
WHERE ($1 OR NOT to_publish) AND (found IS NULL OR NOT has_table_privilege(found, privilege))
GROUP BY name, found
ORDER BY name LIMIT 1
