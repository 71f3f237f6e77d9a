-- effect_accept: records that an effect may close rows with these terms.
-- $1 text effect, $2 text terms
INSERT INTO {own}.effects (name, terms) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET terms = excluded.terms, accepted_at = clock_timestamp() WHERE effects.terms <> excluded.terms
