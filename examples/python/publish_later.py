"""An order service that has its orders looked up after any delay.

    pip install pika
    overdue export --format ladder > ladder.json
    python publish_later.py amqp://user:password@localhost:5672/%2f ladder.json 2220000 unpaid 4711 4712
"""

import json
import sys

import pika
from ladder import enter

url, file, delay_ms, timeout, *order_ids = sys.argv[1:]

with open(file, encoding="utf-8") as text:
    ladder = json.load(text)
# For a worker of `overdue`: rounded down, it waits for the rest itself.
exchange, key = enter(ladder["places"], ladder["max_ms"], int(delay_ms), timeout, "down")
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
channel.confirm_delivery()
for order_id in order_ids:
    properties = pika.BasicProperties(delivery_mode=2, message_id=order_id)
    channel.basic_publish(exchange, key, order_id, properties, mandatory=True)
print(f"{len(order_ids)} confirmed: {exchange} {key}")
connection.close()
