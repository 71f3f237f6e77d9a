-- oldest_writer: the transaction that has been writing, or locking rows, for longest. Every user may ask for it, and
-- where two answers are the same nobody else's transaction between them was older.
-- -> xid bigint: of the next transaction where nobody writes
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS xid
