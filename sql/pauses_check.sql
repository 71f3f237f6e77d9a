-- pauses_check: the UPDATE of refuse_paused() after `overdue resume --rate`; it is planned and not run.
UPDATE {own}.pauses SET used_until = now(), ends_at = now() WHERE topology IS NULL
