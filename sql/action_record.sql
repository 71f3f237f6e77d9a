-- action_record: records an action of a person; PostgreSQL adds the session's user.
-- $1 text via, $2 text action, $3 text what, $4 bigint count, $5 text why, $6 text[] orders
INSERT INTO {own}.actions (via, action, what, count, why, orders) VALUES ($1, $2, $3, $4, $5, $6)
