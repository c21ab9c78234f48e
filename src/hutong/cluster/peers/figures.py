"""Figures of the links with one node: plain integers, read by the metrics."""

from dataclasses import dataclass


@dataclass(slots=True)
class PeerFigures:
    """Totals since the start of this process, and gauges (`is_open`, `round_trip_us`).

    Bytes are those of messages whole, and of questions and answers their bodies.
    """

    is_open: bool = False
    links_total: int = 0  # all but the first are reconnects
    messages_in_total: int = 0
    messages_out_total: int = 0
    bytes_in_total: int = 0
    bytes_out_total: int = 0
    questions_in_total: int = 0
    questions_out_total: int = 0
    silent_total: int = 0  # links that ended since nothing came any more
    unsent_total: int = 0  # links that ended since too much was unsent
    round_trip_us: int | None = None  # of the last heartbeat that was answered
