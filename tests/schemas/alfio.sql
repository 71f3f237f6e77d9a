-- Modelled on: alfio-event/alf.io src/main/resources/alfio/db/PGSQL (tickets_reservation, ticket); own DDL.
-- key char(36); state varchar, one of several waiting ones; deadline `validity` timestamptz; release: tickets are FREE again, and belong to no reservation.
CREATE TABLE tickets_reservation (id char(36) PRIMARY KEY, validity timestamptz NOT NULL, status varchar(255) NOT NULL, full_name varchar(255));
CREATE TABLE ticket (id int PRIMARY KEY, uuid char(36) NOT NULL UNIQUE, event_id int NOT NULL, status varchar(255) NOT NULL, tickets_reservation_id char(36) REFERENCES tickets_reservation);
CREATE INDEX ON ticket (tickets_reservation_id);
-- must close 1..5; not 6,7 (valid) 8 (complete) 9 (is paid later) 10 (cancelled)
INSERT INTO tickets_reservation (id, validity, status) SELECT '00000000-0000-0000-0000-0000000000'||lpad(n::text,2,'0'), now() + CASE WHEN n IN (6,7) THEN interval '1 day' ELSE interval '-10 minutes' END,
  CASE n WHEN 8 THEN 'COMPLETE' WHEN 9 THEN 'OFFLINE_PAYMENT' WHEN 10 THEN 'CANCELLED' ELSE 'PENDING' END FROM generate_series(1,10) n;
INSERT INTO ticket SELECT n, 'ticket-'||n, 1, CASE WHEN (n+1)/2 > 9 THEN 'FREE' WHEN (n+1)/2 = 8 THEN 'ACQUIRED' ELSE 'PENDING' END,
  CASE WHEN (n+1)/2 < 10 THEN '00000000-0000-0000-0000-0000000000'||lpad(((n+1)/2)::text,2,'0') END FROM generate_series(1,20) n;
