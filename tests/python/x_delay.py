"""Publishes the header x-delay in every form that people send it in, and prints what comes out.

python x_delay.py <amqp url> <exchange> <routing key> <queue> [hostile]

`hostile` adds forms at which the delayed message exchange plugin closes the publisher's connection. Each line of the
output is an object in JSON: case, delay (milliseconds it has to take, 0 for at once), took, key, and what of the message
has changed.
"""

import json
import struct
import sys
import time

import pika
import pika.data

LATE = 3000
encode_value = pika.data.encode_value


class Raw:
    """A header value of a type that pika does not choose by itself."""

    def __init__(self, kind, layout, value):
        self.encoded = kind + struct.pack(layout, value)


def encode(pieces, value):
    if not isinstance(value, Raw):
        return encode_value(pieces, value)
    pieces.append(value.encoded)
    return len(value.encoded)


CASES = {
    "missing": (0, None),
    "zero": (0, 0),
    "negative": (0, -5),
    "negative in 64 bits": (0, -(2**40)),
    "too large": (0, 2**32),
    "far too large": (0, 2**62),
    "negative text": (0, "-5"),
    "text too large": (0, "4294967296"),
    "a table": (0, {"ms": LATE}),
    "a list": (0, [LATE]),
    "true": (0, True),
    "signed byte": (0, Raw(b"b", ">b", 120)),
    "unsigned byte": (200, Raw(b"B", ">B", 200)),
    "16 bits": (LATE, Raw(b"s", ">h", LATE)),
    "16 bits unsigned": (LATE, Raw(b"u", ">H", LATE)),
    "32 bits": (LATE, Raw(b"I", ">i", LATE)),
    "32 bits unsigned": (LATE, Raw(b"i", ">I", LATE)),
    "64 bits": (LATE, Raw(b"l", ">q", LATE)),
    "as pika sends it": (LATE, LATE),
    "no level": (LATE + 1, LATE + 1),
    "floating point": (LATE, Raw(b"d", ">d", LATE + 0.7)),
    "text": (LATE, str(LATE)),
    "a level": (1000, 1000),
}
HOSTILE = {
    "text that is no number": (0, "soon"),
    "text with a fraction": (0, "3000.5"),
    "void": (0, Raw(b"V", ">0s", b"")),
}


def properties(case, value):
    # The whole frame may have 128 KiB.
    baggage = "x" * (100_000 if case == "a level" else 10)
    headers = {"trace": {"id": case, "hops": [1, 2]}, "baggage": baggage}
    if value is not None:
        headers["x-delay"] = value
    return pika.BasicProperties(
        headers=headers,
        delivery_mode=2,
        content_type="text/plain",
        content_encoding="identity",
        correlation_id="c-1",
        reply_to="answers",
        message_id=None if case == "no level" else f"id of {case}",
        timestamp=1700000000,
        type="reminder",
        app_id="shop",
        priority=3,
    )


KEPT = "content_type content_encoding correlation_id reply_to message_id timestamp type app_id priority delivery_mode"


def changed(case, got):
    sent = properties(case, None)
    different = [name for name in KEPT.split() if getattr(sent, name) != getattr(got, name)]
    if any(got.headers.get(name) != value for name, value in sent.headers.items()):
        different.append("headers")
    return different


def main(url, exchange, routing_key, queue, hostile=None):
    pika.data.encode_value = encode
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    cases = CASES | HOSTILE if hostile else CASES
    published = {}
    for case, (_, value) in cases.items():
        published[case] = time.monotonic()
        channel.basic_publish(exchange, routing_key, case, properties(case, value))
    left = len(cases)
    for delivery, got, body in channel.consume(queue, inactivity_timeout=60):
        if delivery is None:
            sys.exit(f"{left} messages have not come")
        case = body.decode()
        took = (time.monotonic() - published[case]) * 1000
        line = {"case": case, "delay": cases[case][0], "took": took, "key": delivery.routing_key}
        print(json.dumps(line | {"changed": changed(case, got)}))
        channel.basic_ack(delivery.delivery_tag)
        left -= 1
        if left == 0:
            break
    channel.cancel()
    connection.close()


main(*sys.argv[1:])
