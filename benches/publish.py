"""Publishes lines of JSON from standard input, pipelined: python - <amqp url> <exchange> <routing key> <window>"""

import sys
from collections import deque

import pika

url, exchange, routing_key, window = *sys.argv[1:4], int(sys.argv[4])
lines = [line.encode() for line in sys.stdin.read().splitlines()]
sent = 0
unconfirmed, out_of_order = deque(), set()
channel = None


def on_open(connection):
    connection.channel(on_open_callback=on_channel)


def on_channel(opened):
    global channel
    channel = opened
    channel.confirm_delivery(on_confirm, callback=lambda _: publish())


def on_confirm(frame):
    if frame.method.NAME == "Basic.Nack":
        sys.exit("refused")
    tag = frame.method.delivery_tag
    if frame.method.multiple:
        while unconfirmed and unconfirmed[0] <= tag:
            out_of_order.discard(unconfirmed.popleft())
    else:
        out_of_order.add(tag)
    while unconfirmed and unconfirmed[0] in out_of_order:
        out_of_order.remove(unconfirmed.popleft())
    publish()
    if sent == len(lines) and not unconfirmed:
        channel.connection.close()


def publish():
    global sent
    while sent < len(lines) and len(unconfirmed) - len(out_of_order) < window:
        properties = pika.BasicProperties(
            delivery_mode=2, content_type="application/json", message_id=f"{sent}"
        )
        channel.basic_publish(exchange, routing_key, lines[sent], properties, mandatory=True)
        sent += 1
        unconfirmed.append(sent)


connection = pika.SelectConnection(
    pika.URLParameters(url),
    on_open_callback=on_open,
    on_open_error_callback=lambda _, error: sys.exit(f"no connection: {error}"),
    on_close_callback=lambda connection, _: connection.ioloop.stop(),
)
connection.ioloop.start()
if sent != len(lines) or unconfirmed:
    sys.exit(f"{len(unconfirmed)} of {sent} messages were not confirmed, of {len(lines)}")
