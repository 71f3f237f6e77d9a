-- schedule_register: schedule() takes these timeouts as well. $1 text[] names
INSERT INTO schedule_timeouts (name) SELECT pg_catalog.unnest($1::text[]) ON CONFLICT DO NOTHING
