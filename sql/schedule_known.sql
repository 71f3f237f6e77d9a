-- schedule_known: what schedule() takes. -> topology text, name text
SELECT topology, name FROM {own}.schedule_timeouts WHERE removed_at IS NULL ORDER BY topology, name
