-- schedule_register: schedule() takes these timeouts of a topology as well, but those that were removed. $1 text[] names, $2 text topology
INSERT INTO schedule_timeouts (name, topology) SELECT pg_catalog.unnest($1::text[]), $2 ON CONFLICT DO NOTHING
