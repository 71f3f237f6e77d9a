// An order service that has its orders looked up after any delay.
//
//     npm install amqplib
//     overdue export --format ladder > ladder.json
//     node publish_later.js amqp://user:password@localhost:5672/%2f ladder.json 2220000 unpaid 4711 4712
"use strict";

const { readFileSync } = require("fs");
const amqp = require("amqplib");
const { enter } = require("./ladder");

async function main(url, file, delayMs, timeout, ...orderIds) {
  // For a worker of `overdue`: rounded down, it waits for the rest itself.
  const [exchange, key] = enter(JSON.parse(readFileSync(file, "utf8")), Number(delayMs), timeout, "down");
  const connection = await amqp.connect(url);
  const channel = await connection.createConfirmChannel();
  for (const id of orderIds) channel.publish(exchange, key, Buffer.from(id), { persistent: true, messageId: id });
  await channel.waitForConfirms();
  console.log(`${orderIds.length} confirmed: ${exchange} ${key}`);
  await connection.close();
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
