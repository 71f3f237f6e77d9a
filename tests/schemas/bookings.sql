-- Modelled on: booking systems on Laravel or Rails with an exclusion constraint on the time of the room; own DDL.
-- key bigint; state is an enum with two waiting values; deadline expires_at timestamp(0) WITHOUT tz, NULL in some rows; guard: not soft-deleted;
-- release: the coupon's counter goes DOWN, and the seats are free again.
CREATE TYPE "BookingStatus" AS ENUM ('new', 'awaiting payment', 'confirmed', 'expired');
CREATE TABLE coupons (code varchar(20) PRIMARY KEY, used int NOT NULL DEFAULT 0 CHECK (used >= 0));
CREATE TABLE bookings (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, during tstzrange NOT NULL, status "BookingStatus" NOT NULL DEFAULT 'new', coupon_code varchar(20) REFERENCES coupons, expires_at timestamp(0), deleted_at timestamp(0), updated_at timestamp(0),
  EXCLUDE USING gist (during WITH &&) WHERE (status <> 'expired'));
CREATE TABLE booking_seats (booking_id bigint NOT NULL REFERENCES bookings ON DELETE CASCADE, seat smallint NOT NULL, is_held boolean NOT NULL, PRIMARY KEY (booking_id, seat));
INSERT INTO coupons VALUES ('SPRING', 4), ('IDLE', 0);
-- must close 1..5; not 6,7 (later) 8 (confirmed) 9 (without an end) 10 (soft-deleted)
INSERT INTO bookings (during, status, coupon_code, expires_at, deleted_at) SELECT tstzrange(now() + n * interval '1 h', now() + (n + 1) * interval '1 h'), (CASE n WHEN 1 THEN 'new' WHEN 8 THEN 'confirmed' ELSE 'awaiting payment' END)::"BookingStatus",
  CASE WHEN n IN (1,2,3,8) THEN 'SPRING' END, CASE WHEN n <> 9 THEN (now() AT TIME ZONE 'UTC') + CASE WHEN n IN (6,7) THEN interval '20m' ELSE interval '-20m' END END, CASE WHEN n = 10 THEN now() AT TIME ZONE 'UTC' END FROM generate_series(1,10) n;
INSERT INTO booking_seats SELECT id, seat, true FROM bookings, generate_series(1,2) seat;
