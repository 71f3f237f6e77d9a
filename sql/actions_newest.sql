-- actions_newest: what people have done last.
-- $1 bigint rows at the most
-- -> at timestamptz, by text, via text, action text, what text, count bigint, why text
SELECT at, by, via, action, what, count, why FROM actions ORDER BY id DESC LIMIT $1
