"""Counters of the reactor: plain integers, read by the metrics. Each costs one addition."""

from enum import StrEnum

from hutong.reactor.frames.request_queue import RequestQueue


class CloseReason(StrEnum):
    """The reason for the end of a connection; also the label of the metric."""

    PEER = "the peer closed it"
    PROTOCOL_ERROR = "its bytes broke the protocol"
    HANDLER = "a request asked for it"
    IDLE = "it was idle too long"
    SLOW_SENDER = "it was too slow to finish a frame"
    MEMORY = "connections held too much memory together, this one the most"
    DRAINED = "the node stops"
    EXCESS = "the node had more connections than it may, and this one was idle the longest"
    CUT = "it was cut off by hand"
    FAULT = "a fault of this node"


class HandshakeFailure(StrEnum):
    """The reason for a failed handshake; also the label of the metric."""

    NO_CERTIFICATE = "the client showed no certificate"
    EXPIRED = "the client's certificate has expired"
    REVOKED = "the client's certificate was revoked"
    NO_CRL = "no valid revocation list of the client's authority"
    UNKNOWN_AUTHORITY = "no known authority has signed the client's certificate"
    BAD_CERTIFICATE = "the client's certificate is not valid"
    REFUSED_BY_PEER = "the client refused, this node's certificate perhaps"
    NO_AGREEMENT = "no version or cipher in common"
    NOT_TLS = "what the client sent is not TLS"
    TOO_SLOW = "the handshake took too long"
    PEER_LEFT = "the client left"
    OTHER = "another reason"


class ReactorFigures:
    """Totals since the start, and gauges (`connections_open`, `receiving_bytes`)."""

    __slots__ = (
        "bytes_received_total",
        "bytes_sent_total",
        "bytes_waiting_total",
        "check_at_bytes",
        "closed_total",
        "connections_accepted_total",
        "connections_open",
        "connections_refused_per_ip_rate_total",
        "connections_refused_per_ip_total",
        "connections_refused_total",
        "handshakes_failed_total",
        "handshakes_total",
        "queue",
        "reading_pauses_total",
        "receiving_bytes",
        "receiving_bytes_by_ip",
        "requests_total",
        "writes_total",
    )

    def __init__(self) -> None:
        self.connections_open = 0
        self.connections_accepted_total = 0
        self.connections_refused_total = 0
        self.connections_refused_per_ip_total = 0
        self.connections_refused_per_ip_rate_total = 0
        self.handshakes_total = 0  # of TLS, that were finished
        self.handshakes_failed_total = dict.fromkeys(HandshakeFailure, 0)
        self.closed_total = dict.fromkeys(CloseReason, 0)
        self.queue = RequestQueue()
        self.requests_total = 0
        self.bytes_received_total = 0
        self.bytes_sent_total = 0
        self.bytes_waiting_total = 0  # seen waiting for something, again at each pass of a connection
        self.check_at_bytes = 0  # the traffic at which to check the memory held (see `memory.watch`)
        self.writes_total = 0
        self.reading_pauses_total = 0
        self.receiving_bytes = 0  # of unfinished frames
        self.receiving_bytes_by_ip: dict[str, int] = {}  # the same by address, without those that have none

    def change_receiving(self, address: str, size: int) -> None:
        """Add to the bytes of an address's unfinished frames; negative to subtract."""
        self.receiving_bytes += size
        held = self.receiving_bytes_by_ip.get(address, 0) + size
        if held:
            self.receiving_bytes_by_ip[address] = held
        else:
            self.receiving_bytes_by_ip.pop(address, None)

    @property
    def traffic_bytes(self) -> int:
        """All by which memory can have grown; never less than that."""
        return self.bytes_sent_total + self.bytes_received_total + self.bytes_waiting_total
