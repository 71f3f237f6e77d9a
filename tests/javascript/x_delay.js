// Publishes the header x-delay in every form that amqplib sends it in, and prints what comes out, as x_delay.py does.
//
//     node x_delay.js <amqp url> <exchange> <routing key> <queue>
"use strict";

const amqp = require("amqplib");

const LATE = 3000;
// Milliseconds it has to take, and the value of the header.
const CASES = {
  missing: [0, undefined],
  zero: [0, 0],
  negative: [0, -5],
  "too large": [0, 2 ** 32],
  "far too large": [0, 2 ** 52],
  // The plugin does not take it for a number, and amqplib says nothing of it.
  "a byte, as for all numbers up to 127": [0, 127],
  "16 bits": [128, 128],
  "no level": [LATE + 1, LATE + 1],
  "floating point": [LATE, LATE + 0.7],
  text: [LATE, String(LATE)],
  "negative text": [0, "-5"],
  "an object": [0, { ms: LATE }],
  "a list": [0, [LATE]],
  true: [0, true],
  "a level": [1000, 1000],
  "an int, as written": [LATE, { "!": "int", value: LATE }],
  "a long, as written": [LATE, { "!": "long", value: LATE }],
};

const KEPT = {
  contentType: "text/plain",
  contentEncoding: "identity",
  correlationId: "c-1",
  replyTo: "answers",
  timestamp: 1700000000,
  type: "reminder",
  appId: "shop",
  priority: 3,
  deliveryMode: 2,
};
const trace = (name) => ({ id: name, hops: [1, 2] });

function changed(name, { properties }) {
  const different = Object.keys(KEPT).filter((key) => properties[key] !== KEPT[key]);
  // In whatever order the keys of a table come back.
  const { id, hops } = properties.headers.trace;
  if (JSON.stringify({ id, hops }) !== JSON.stringify(trace(name))) different.push("headers");
  return different;
}

async function main(url, exchange, routingKey, queue) {
  const connection = await amqp.connect(url);
  const channel = await connection.createConfirmChannel();
  const published = {};
  for (const [name, [, value]] of Object.entries(CASES)) {
    const headers = { trace: trace(name) };
    if (value !== undefined) headers["x-delay"] = value;
    published[name] = performance.now();
    channel.publish(exchange, routingKey, Buffer.from(name), { ...KEPT, headers });
  }
  await channel.waitForConfirms();
  let left = Object.keys(CASES).length;
  await new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error(`${left} messages have not come`)), 60_000).unref();
    channel.consume(queue, (message) => {
      const name = message.content.toString();
      const took = performance.now() - published[name];
      const [delay] = CASES[name];
      const line = { case: name, delay, took, key: message.fields.routingKey, changed: changed(name, message) };
      console.log(JSON.stringify(line));
      channel.ack(message);
      left -= 1;
      if (left === 0) resolve();
    });
  });
  await channel.close();
  await connection.close();
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
