"""A publisher as it was written for the delayed message exchange plugin.

python delayed_publisher.py <amqp url> <exchange>

Standard input has a line per message: routing key, x-delay in milliseconds ("-" for none), body.
"""

import sys

import pika


def main(url, exchange):
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.confirm_delivery()
    for line in sys.stdin:
        routing_key, delay, body = line.rstrip("\n").split(" ", 2)
        headers = {} if delay == "-" else {"x-delay": int(delay)}
        properties = pika.BasicProperties(delivery_mode=2, headers=headers)
        channel.basic_publish(exchange, routing_key, body, properties)
        print(f"published {body} with {routing_key}, x-delay {delay}")
    connection.close()


main(*sys.argv[1:])
