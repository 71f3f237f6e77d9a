-- Modelled on: evergreen-library-system/Evergreen Open-ILS/src/sql/Pg/090.schema.action.sql; own DDL.
-- key serial; other schema; NO state column: open = cancel_time IS NULL AND fulfillment_time IS NULL; deadline shelf_expire_time timestamptz NULLABLE;
-- closing sets cancel_time = now(), cancel_cause = 2; release: asset.copy.status 8 (on holds shelf) -> 7 (reshelving).
CREATE TABLE asset.copy (id bigint PRIMARY KEY, barcode text NOT NULL, status int NOT NULL);
CREATE TABLE action.hold_request_cancel_cause (id serial PRIMARY KEY, label text UNIQUE);
INSERT INTO action.hold_request_cancel_cause (label) VALUES ('Untargeted expiration'),('Hold Shelf expiration');
CREATE TABLE action.hold_request (id serial PRIMARY KEY, request_time timestamptz NOT NULL DEFAULT now(), capture_time timestamptz, fulfillment_time timestamptz, expire_time timestamptz, cancel_time timestamptz,
  cancel_cause int REFERENCES action.hold_request_cancel_cause DEFERRABLE INITIALLY DEFERRED, current_copy bigint, usr int NOT NULL, frozen boolean NOT NULL DEFAULT false, shelf_time timestamptz, shelf_expire_time timestamptz);
INSERT INTO asset.copy SELECT n,'b'||n,8 FROM generate_series(1,10) n;
-- must close 1..5; not 6,7 future, 8 fulfilled, 9 cancelled before, 10 not on the shelf yet (NULL)
INSERT INTO action.hold_request (id,usr,current_copy,shelf_expire_time,fulfillment_time,cancel_time) SELECT n,n,n,CASE WHEN n=10 THEN NULL ELSE now()+CASE WHEN n IN (6,7) THEN interval '1 day' ELSE interval '-10m' END END,CASE WHEN n=8 THEN now() END,CASE WHEN n=9 THEN now() END FROM generate_series(1,10) n;
