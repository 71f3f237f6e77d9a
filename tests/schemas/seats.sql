-- Modelled on: seats of cinema and theatre shops, whose row is held and free again; own DDL.
-- key (screening_id, seat_no): int and text; state varchar held -> free; deadline held_until timestamptz, NULL where the seat is not held; the row keeps
-- nothing of who held it.
CREATE TABLE seat (screening_id int NOT NULL, seat_no text NOT NULL, state varchar(10) NOT NULL DEFAULT 'free' CHECK (state IN ('free','held','sold')), held_by uuid, held_until timestamptz, PRIMARY KEY (screening_id, seat_no));
-- must free 1..5; not 6,7 (held) 8 (sold) 9,10 (free)
INSERT INTO seat SELECT CASE WHEN n < 4 THEN 1 ELSE 2 END, 'A'||n, CASE WHEN n < 8 THEN 'held' WHEN n = 8 THEN 'sold' ELSE 'free' END, CASE WHEN n < 8 THEN gen_random_uuid() END,
  CASE WHEN n < 8 THEN now() + CASE WHEN n > 5 THEN interval '10m' ELSE interval '-1m' END END FROM generate_series(1,10) n;
