-- The clock that all workers share. Out: milliseconds since 1970.
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000.0)::bigint
