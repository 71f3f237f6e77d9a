-- bench_tutorial_look: the first query of a tutorial's consumer. $1 text order id -> status text, is_due boolean
SELECT status, due_at <= now() AS is_due FROM orders WHERE id = $1 FOR UPDATE
