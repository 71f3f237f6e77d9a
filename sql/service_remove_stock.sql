-- service_remove_stock: the stock of a run, after its orders.
-- $1 text prefix of the run's SKUs
DELETE FROM stock WHERE starts_with(sku, $1)
