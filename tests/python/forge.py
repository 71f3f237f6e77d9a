"""Publishes messages that no well-behaved client can.

python forge.py <amqp url>

Standard input has a line per message: exchange, routing key, body and what to forge, as an array in JSON.

  message-id           a message-id that is no UTF-8
  header-name          a header whose name is no UTF-8
  routing-key          a routing key that begins with a byte that is no UTF-8
  nested-tables DEPTH  headers with tables in tables in tables
  nested-arrays DEPTH  headers with arrays in arrays in arrays
  long-header BYTES    headers that nearly fill a frame

Each is persistent, and confirmed by the broker when this returns.
"""

import json
import struct
import sys

import pika
import pika.data
import pika.spec


class Raw:
    """An encoded header table."""

    def __init__(self, encoded):
        self.encoded = encoded


encode_table = pika.data.encode_table


def encode(pieces, table):
    if not isinstance(table, Raw):
        return encode_table(pieces, table)
    pieces.append(long_string(table.encoded))
    return len(pieces[-1])


def long_string(value):
    return struct.pack(">I", len(value)) + value


def entry(name, kind, value):
    return bytes([len(name)]) + name + kind + long_string(value)


def nested_tables(depth):
    table = b""
    for _ in range(depth):
        table = entry(b"n", b"F", table)
    return table


def nested_arrays(depth):
    array = b""
    for _ in range(depth):
        array = b"A" + long_string(array)
    return entry(b"n", b"A", array)


def publish(channel, exchange, routing_key, body, forgery):
    what, _, argument = forgery.partition(" ")
    properties = pika.BasicProperties(delivery_mode=2)
    if what == "message-id":
        properties.message_id = b"caf\xe9"
    elif what == "header-name":
        properties.headers = Raw(entry(b"caf\xe9", b"S", b"kept"))
    elif what == "routing-key":
        routing_key = b"\xff." + routing_key.encode()
    elif what == "nested-tables":
        properties.headers = Raw(nested_tables(int(argument)))
    elif what == "nested-arrays":
        properties.headers = Raw(nested_arrays(int(argument)))
    elif what == "long-header":
        properties.headers = Raw(entry(b"long", b"S", b"x" * int(argument)))
    else:
        sys.exit(f"what is {what}?")
    channel.basic_publish(exchange, routing_key, body, properties)


def main(url):
    pika.spec.data.encode_table = encode
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.confirm_delivery()
    for line in sys.stdin:
        publish(channel, *json.loads(line))
    connection.close()


main(*sys.argv[1:])
