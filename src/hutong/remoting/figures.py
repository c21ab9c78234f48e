"""Counters of remoting, as plain integers; the reactor has its own."""


class RemotingFigures:
    """Totals since the start."""

    __slots__ = ("failures_total", "overloads_total", "rejected_total", "unasked_total")

    def __init__(self) -> None:
        self.failures_total = 0  # processors that raised
        self.overloads_total = 0  # requests that found no room
        self.rejected_total = 0  # requests that a processor's `rejects` refused
        self.unasked_total = 0  # answers that nobody awaited (any more)
