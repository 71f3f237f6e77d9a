"""Any delay on a ladder: where to publish, and with which routing key.

The ladder's places, smallest unit first, are those of the topology: exchange and unit, e.g. `orders.ladder.10m`, 600000.

    python ladder.py < ../ladder-vectors.json      # compares itself with the golden vectors
"""

import json
import sys


def enter(places, max_ms, delay_ms, word, rounding="up"):
    """Exchange and routing key for a delay: up is never early, down is never late."""
    if not 0 <= delay_ms <= max_ms:
        raise ValueError(f"no delay of {delay_ms} ms")
    unit = places[0]["unit_ms"]
    rest = (delay_ms + unit - 1 if rounding == "up" else delay_ms) // unit * unit
    digits = []
    for place in reversed(places):
        digit, rest = divmod(rest, place["unit_ms"])
        digits.insert(0, digit)
    while len(digits) > 1 and digits[-1] == 0:
        digits.pop()
    return places[len(digits) - 1]["exchange"], ".".join(map(str, [*digits, word]))


def main():
    count, wrong = 0, 0
    for ladder in json.load(sys.stdin):
        for case in ladder["cases"]:
            expected = (case.get("exchange"), case.get("routing_key"))
            try:
                result = enter(ladder["places"], ladder["max_ms"], case["delay_ms"], ladder["word"], case["rounding"])
            except ValueError:
                result = (None, None)
            if result != expected:
                print(f"{ladder['about']}: {case}: {result}", file=sys.stderr)
                wrong += 1
            count += 1
    print(f"{count} vectors, {wrong} wrong")
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main())
