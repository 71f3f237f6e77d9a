"""An order service: a due notice for each line of standard input, `<order id> <due at> <delay>`, after the order's commit.

    pip install pika
    echo 4711 2026-11-20T10:30:00Z 30m | python order_service.py amqp://user:password@localhost:5672/%2f unpaid

The delay is a level. On a ladder it is any number of milliseconds:

    overdue export --format ladder >ladder.json
    echo 4711 2026-11-20T10:30:00Z 2220000 | python order_service.py amqp://user:password@localhost:5672/%2f unpaid ladder.json
"""

import json
import sys

import pika
from ladder import enter
from pika.exceptions import NackError, UnroutableError

PERSISTENT = 2


def publish(channel, exchange, routing_key, order_id, due_at):
    properties = pika.BasicProperties(
        content_type="application/json",
        delivery_mode=PERSISTENT,
        message_id=f"{order_id}@{due_at}",  # the same when it is published again
    )
    body = json.dumps({"order_id": order_id, "due_at": due_at})
    try:
        channel.basic_publish(exchange, routing_key, body, properties, mandatory=True)
    except UnroutableError:
        sys.exit(f"{order_id}: returned, no queue takes {routing_key} at {exchange}")
    except NackError:
        sys.exit(f"{order_id}: nacked, publish it again later")


def main(url, timeout, file=None):
    ladder = json.load(open(file, encoding="utf-8")) if file else None
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()  # basic_publish waits for the broker's answer
        for line in sys.stdin:
            order_id, due_at, delay = line.split()
            way = enter(ladder, int(delay), timeout) if ladder else ("orders.in", f"{delay}.{timeout}")
            publish(channel, *way, order_id, due_at)
            print(f"{order_id}: confirmed")


main(*sys.argv[1:])
