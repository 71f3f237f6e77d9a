"""A consumer as it was written for the delayed message exchange plugin: it declares its queue, binds it, consumes.

python delayed_consumer.py <amqp url> <exchange> <routing key> <messages>

Stops after so many messages.
"""

import sys

import pika


def main(url, exchange, routing_key, messages):
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    queue = f"reminders-{routing_key}"
    channel.queue_declare(queue, durable=True)
    channel.queue_bind(queue, exchange, routing_key)
    print("waiting", flush=True)
    left = int(messages)
    for delivery, properties, body in channel.consume(queue):
        print(f"received {body.decode()} with {delivery.routing_key}", flush=True)
        channel.basic_ack(delivery.delivery_tag)
        left -= 1
        if left == 0:
            break
    connection.close()


main(*sys.argv[1:])
