-- outbox_hold: after outbox_claim.sql. A relay that hangs loses its connection, and with it the lock. Sent as a simple query, it
-- also ends the portal of the claim: without its snapshot, vacuum goes on while the relay publishes.
SET LOCAL idle_in_transaction_session_timeout = '20s'
