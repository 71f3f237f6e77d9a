-- Modelled on: dotnet/eShop src/Ordering.Infrastructure and OrderProcessor GracePeriodManagerService; own DDL.
-- key "Id" int from a HiLo sequence; other schema `ordering`; PascalCase columns; state varchar; deadline = "OrderDate" + GracePeriodTime (configuration).
CREATE TABLE ordering.orders ("Id" int PRIMARY KEY, "OrderDate" timestamptz NOT NULL, "OrderStatus" varchar(30) NOT NULL, "BuyerId" int, "Description" text);
CREATE TABLE ordering."orderItems" ("Id" int PRIMARY KEY, "OrderId" int NOT NULL REFERENCES ordering.orders, "ProductId" int NOT NULL, "Units" int NOT NULL);
-- must close 1..5 (older than 1 minute, Submitted); not 6,7 (young) 8 Paid 9 Cancelled 10 AwaitingValidation
INSERT INTO ordering.orders SELECT n, now()-CASE WHEN n IN (6,7) THEN interval '10 seconds' ELSE interval '10 minutes' END, CASE n WHEN 8 THEN 'Paid' WHEN 9 THEN 'Cancelled' WHEN 10 THEN 'StockConfirmed' ELSE 'Submitted' END FROM generate_series(1,10) n;
