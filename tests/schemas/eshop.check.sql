-- 1 2 3 4 5
SELECT string_agg("Id"::text, ' ' ORDER BY "Id") FROM ordering.orders WHERE "OrderStatus" = 'AwaitingValidation';
