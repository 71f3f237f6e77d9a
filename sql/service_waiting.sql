-- service_waiting: orders of a run that still wait for their message, as far as the database knows.
-- $1 text prefix of the run's ids -> orders bigint
SELECT count(*) AS orders FROM orders WHERE starts_with(id, $1) AND (status = 'unpaid' OR due_at > now())
