-- pauses_refuse: fails with SQLSTATE OV001 if a timeout is paused (sql/pauses.sql). $1 text topology, $2 text timeout, or NULL, $3 text
-- effect, $4 integer orders that this transaction will close
SELECT {own}.refuse_paused($1, $2, $3, $4)
