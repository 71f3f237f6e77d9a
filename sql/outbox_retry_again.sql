-- outbox_retry_again: when to try an event name again: at once where it is not refused, else after 1 s, then twice as long each
-- time, at most 5 min; a forbidden one (see outbox_refuse.sql) at most 1 min: where a queue does not answer each try waits for
-- longer than that, and hears at once when it answers.
-- $1 text event name, $2 boolean whether an event of it was published this time, $3 boolean whether one was refused
UPDATE outbox_retries
SET refusals = CASE WHEN $2 THEN 1 ELSE refusals + 1 END,
    next_try = now() + CASE WHEN NOT $3 THEN 0 WHEN $2 THEN 1
                            ELSE least(CASE WHEN forbidden THEN 60 ELSE 300 END, power(2::float8, least(refusals, 9)::float8)) END * interval '1 second'
WHERE event = $1
