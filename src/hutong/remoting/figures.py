"""Counters of remoting, as plain integers; the reactor has its own."""


class RemotingFigures:
    """Totals since the start."""

    __slots__ = ("overloads_total", "unasked_total")

    def __init__(self) -> None:
        self.overloads_total = 0  # requests that found no room
        self.unasked_total = 0  # answers that nobody awaited (any more)
