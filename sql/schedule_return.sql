-- schedule_return: notices that were set aside because nobody knew their timeout are to be published. $1 text[] timeouts
WITH back AS (
    DELETE FROM scheduled_notices_refused WHERE unknown_timeout AND timeout = ANY ($1)
    RETURNING order_id, timeout, due_at, scheduled_at
)
INSERT INTO scheduled_notices (order_id, timeout, due_at, scheduled_at) SELECT order_id, timeout, due_at, scheduled_at FROM back
