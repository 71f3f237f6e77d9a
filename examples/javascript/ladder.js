// Any delay on a ladder: where to publish, and with which routing key.
//
// The ladder is what `overdue export --format ladder` prints.
//
//     node ladder.js < ../ladder-vectors.json      # compares itself with the golden vectors
"use strict";

// Exchange and routing key for a delay: up is never early, down is never late.
function enter(ladder, delayMs, word, rounding = "up") {
  if (!(delayMs >= 0 && delayMs <= ladder.max_ms)) throw new RangeError(`no delay of ${delayMs} ms`);
  const unit = ladder.places[0].unit_ms;
  let rest = (rounding === "up" ? Math.ceil(delayMs / unit) : Math.floor(delayMs / unit)) * unit;
  const digits = [];
  for (const place of [...ladder.places].reverse()) {
    digits.unshift(Math.floor(rest / place.unit_ms));
    rest %= place.unit_ms;
  }
  while (digits.length > 1 && digits.at(-1) === 0) digits.pop();
  return [ladder.places[digits.length - 1].exchange, [...digits, word].join(".")];
}

function main(ladders) {
  let [count, wrong] = [0, 0];
  for (const ladder of ladders) {
    for (const expected of ladder.cases) {
      let path = [undefined, undefined];
      try {
        path = enter(ladder, expected.delay_ms, ladder.word, expected.rounding);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
      }
      count += 1;
      if (path[0] !== expected.exchange || path[1] !== expected.routing_key) {
        console.error(`${ladder.about}: ${JSON.stringify(expected)}: ${path}`);
        wrong += 1;
      }
    }
  }
  console.log(`${count} vectors, ${wrong} wrong`);
  process.exitCode = wrong > 0 || count === 0 ? 1 : 0;
}

module.exports = { enter };
if (require.main === module) main(JSON.parse(require("fs").readFileSync(0, "utf8")));
