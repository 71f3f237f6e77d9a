-- outbox_retry_names: the event names that set-aside events wait for. -> name text
SELECT DISTINCT waits_for AS name FROM {own}.outbox_refused WHERE waits_for IS NOT NULL
