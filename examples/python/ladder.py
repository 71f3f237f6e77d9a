"""Any delay on a ladder: where to publish, and with which routing key. The ladder is what `overdue export --format ladder` prints."""


def enter(ladder, delay_ms, timeout):
    """Exchange and routing key, rounded down: the worker waits for the rest."""
    rest, digits = delay_ms // ladder["resolution_ms"], []
    if 0 <= delay_ms <= ladder["max_ms"]:
        for place in ladder["places"]:  # smallest unit first
            rest, digit = divmod(rest, place["highest"] + 1)
            digits.append(str(digit))
            if rest == 0:
                return place["exchange"], ".".join([*digits, timeout])
    raise ValueError(f"no delay of {delay_ms} ms")
