"""The same as order_service.py with aio-pika, for services that run in asyncio.

    pip install aio-pika
    echo 4711 2026-11-20T10:30:00Z 30m | python aio_order_service.py amqp://user:password@localhost:5672/%2f unpaid [ladder.json]
"""

import asyncio
import json
import sys

from aio_pika import DeliveryMode, Message, connect_robust
from aio_pika.exceptions import DeliveryError, PublishError
from ladder import enter


async def publish(channel, exchange, routing_key, order_id, due_at):
    message = Message(
        json.dumps({"order_id": order_id, "due_at": due_at}).encode(),
        content_type="application/json",
        delivery_mode=DeliveryMode.PERSISTENT,
        message_id=f"{order_id}@{due_at}",  # the same when it is published again
    )
    try:
        orders = await channel.get_exchange(exchange, ensure=False)
        await orders.publish(message, routing_key, mandatory=True, timeout=30)
    except PublishError:  # a DeliveryError, too
        sys.exit(f"{order_id}: returned, no queue takes {routing_key} at {exchange}")
    except DeliveryError:
        sys.exit(f"{order_id}: nacked, publish it again later")


async def main(url, timeout, file=None):
    ladder = json.load(open(file, encoding="utf-8")) if file else None
    async with await connect_robust(url) as connection:
        # Without `on_return_raises` a returned message would pass for a confirmed one.
        channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
        for line in sys.stdin:
            order_id, due_at, delay = line.split()
            way = enter(ladder, int(delay), timeout) if ladder else ("orders.in", f"{delay}.{timeout}")
            await publish(channel, *way, order_id, due_at)
            print(f"{order_id}: confirmed")


asyncio.run(main(*sys.argv[1:]))
