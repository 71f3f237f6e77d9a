-- schedule_known: timeouts that schedule() accepts. -> topology text, name text
SELECT topology, name FROM {own}.schedule_timeouts WHERE removed_at IS NULL ORDER BY topology, name
