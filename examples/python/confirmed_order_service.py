"""An order service that wants to know: JSON, persistent, mandatory, and each message confirmed.

It reads one order per line from standard input, `<order id> <due at, RFC 3339>`, as it would read its outbox after
the transaction that created the orders, and publishes a due notice for each. What the broker did not take is
printed with the reason, and the exit code is 1: publish it again, a duplicate does no harm.

    pip install pika
    echo 4711 2026-11-20T10:30:00Z | python confirmed_order_service.py amqp://user:password@localhost:5672/%2f 30m.unpaid
"""

import json
import sys

import pika
from pika.exceptions import NackError, UnroutableError

PERSISTENT = 2


def due_notice(order_id, due_at):
    """Body and properties. The message-id is the same each time, so that a duplicate can be told."""
    body = json.dumps({"order_id": order_id, "due_at": due_at})
    properties = pika.BasicProperties(
        content_type="application/json",
        delivery_mode=PERSISTENT,
        message_id=f"{order_id}@{due_at}",
    )
    return body, properties


def main(url, routing_key):
    failed = 0
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    # From here on basic_publish waits for the broker's answer.
    channel.confirm_delivery()
    for line in sys.stdin:
        order_id, due_at = line.split()
        body, properties = due_notice(order_id, due_at)
        try:
            channel.basic_publish("orders.in", routing_key, body, properties, mandatory=True)
            print(f"{order_id}: confirmed")
        except (UnroutableError, NackError) as error:
            print(f"{order_id}: {type(error).__name__}", file=sys.stderr)
            failed += 1
    connection.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
