-- pauses_refuse: fails with SQLSTATE OV001 if a timeout is paused (sql/pauses.sql). $1 text topology, $2 text timeout, or NULL, $3 text
-- effect, $4 integer orders that are to be closed in this transaction
SELECT {own}.refuse_paused($1, $2, $3, $4)
