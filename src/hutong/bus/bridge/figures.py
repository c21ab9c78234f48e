"""Counters of a bridge: plain integers, read by the metrics."""

from hutong.wire.vertx.codes import Code


class BridgeFigures:
    """Totals since the start, and gauges (`clients`, `registrations`)."""

    __slots__ = ("clients", "clients_total", "frames_in_total", "frames_out_total", "refused_total", "registrations")

    def __init__(self) -> None:
        self.clients = 0
        self.clients_total = 0
        self.registrations = 0
        self.frames_in_total = 0  # whatever was in them
        self.frames_out_total = 0
        self.refused_total = dict.fromkeys(Code, 0)  # of the frames out, those that refuse something
