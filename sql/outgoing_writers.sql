-- outgoing_writers: transactions that may have written a row which is not visible yet. Each has this lock from before its row gets an id
-- until the transaction ends. $1 text table -> writer text
SELECT virtualtransaction AS writer FROM pg_catalog.pg_locks
WHERE relation = $1::text::regclass::oid AND mode = 'RowExclusiveLock'
  AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
