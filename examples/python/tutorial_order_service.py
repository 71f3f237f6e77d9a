"""An order service as a reader of RabbitMQ's tutorials would write it.

For each order it publishes the bare order id; the routing key says how long the message waits and what for.

    pip install pika
    python tutorial_order_service.py amqp://user:password@localhost:5672/%2f 30m.unpaid 4711 4712
"""

import sys

import pika

url, routing_key, *order_ids = sys.argv[1:]

connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
for order_id in order_ids:
    channel.basic_publish(exchange="orders.in", routing_key=routing_key, body=order_id)
    print(f"{order_id}: will be looked at after {routing_key}")
connection.close()
