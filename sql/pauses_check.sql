-- pauses_check: what refuse_paused() does to the table after `overdue resume --rate`; planned only.
UPDATE {own}.pauses SET used_until = now(), ends_at = now() WHERE topology IS NULL
