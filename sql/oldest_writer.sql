-- oldest_writer: the transaction that has been writing, or locking rows, for longest. Every user may ask. It has not ended while
-- the answer is the same.
-- -> xid bigint: of the next transaction where nobody writes
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS xid
