-- effect_accepted: the terms with which an effect may close rows.
-- $1 text effect -> terms text
SELECT terms FROM {own}.effects WHERE name = $1
