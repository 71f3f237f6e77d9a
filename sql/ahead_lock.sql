-- ahead_lock: whether this transaction may close ahead of the messages; another one that does so for the same effect and
-- the same tables has not ended yet otherwise. $1 text effect -> boolean
SELECT pg_try_advisory_xact_lock(hashtextextended(current_setting('search_path') || ' overdue ahead ' || $1, 0::bigint))
