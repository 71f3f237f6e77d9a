-- outbox_floor: the first event that is left, and the transactions which may have written an earlier one that is not seen yet: each
-- holds this lock from before its event has an id until it ends. They are read after the snapshot is taken.
-- $1 bigint[] ids that are passed over -> first bigint (NULL: none), writers text[]
SELECT (SELECT min(id) FROM outbox WHERE id <> ALL ($1)) AS first,
       ARRAY(SELECT virtualtransaction FROM pg_catalog.pg_locks
             WHERE relation = 'outbox'::regclass::oid AND mode = 'RowExclusiveLock'
               AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())) AS writers
