// An order service: a due notice for each line of standard input, `<order id> <due at> <delay>`, after the order's commit.
//
//     npm install amqplib
//     echo 4711 2026-11-20T10:30:00Z 30m | node order_service.js amqp://user:password@localhost:5672/%2f unpaid
//
// The delay is a level; on a ladder (`overdue export --format ladder`) it is any number of milliseconds, after `ladder.json`.
"use strict";

const { readFileSync } = require("fs");
const amqp = require("amqplib");

// Exchange and routing key on a ladder, rounded down: the worker waits for the rest.
function enter(ladder, delayMs, timeout) {
  let rest = Math.floor(delayMs / ladder.resolution_ms);
  let key = "";
  if (delayMs >= 0 && delayMs <= ladder.max_ms) {
    for (const { exchange, highest } of ladder.places) {
      key += `${rest % (highest + 1)}.`; // the smallest unit first
      rest = Math.floor(rest / (highest + 1));
      if (rest === 0) return [exchange, key + timeout];
    }
  }
  throw new RangeError(`no delay of ${delayMs} ms`);
}

async function publish(channel, returned, [exchange, key], orderId, dueAt) {
  const messageId = `${orderId}@${dueAt}`; // the same when it is published again
  const body = Buffer.from(JSON.stringify({ order_id: orderId, due_at: dueAt }));
  const options = { persistent: true, mandatory: true, messageId, contentType: "application/json" };
  await new Promise((resolve, reject) => {
    const nacked = new Error(`${orderId}: nacked, publish it again later`);
    channel.publish(exchange, key, body, options, (error) => (error ? reject(nacked) : resolve()));
  });
  // The broker returns a message before it confirms it.
  if (returned.delete(messageId)) throw new Error(`${orderId}: returned, no queue takes ${key} at ${exchange}`);
}

async function main(url, timeout, file) {
  const ladder = file && JSON.parse(readFileSync(file, "utf8"));
  const connection = await amqp.connect(url);
  const channel = await connection.createConfirmChannel();
  const returned = new Set();
  channel.on("return", (message) => returned.add(message.properties.messageId));
  for (const line of readFileSync(0, "utf8").trim().split("\n")) {
    const [orderId, dueAt, delay] = line.split(" ");
    const way = ladder ? enter(ladder, Number(delay), timeout) : ["orders.in", `${delay}.${timeout}`];
    await publish(channel, returned, way, orderId, dueAt);
    console.log(`${orderId}: confirmed`);
  }
  await connection.close();
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
