-- effect_accepted: the terms with which an effect may close rows.
-- $1 text effect -> terms text
SELECT terms FROM effects WHERE name = $1
