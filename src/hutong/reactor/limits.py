"""Every bound of the reactor, by name. Defaults follow Kafka's where Kafka has one (SocketServerConfigs)."""

from dataclasses import dataclass, fields

KIBIBYTE = 1024
MEBIBYTE = 1024 * KIBIBYTE


@dataclass(frozen=True, slots=True)
class ReactorLimits:
    """Bounds of one acceptor and of each of its connections. Raises ValueError for a bound below one."""

    connections_max: int = 10_000
    connections_per_ip_max: int = 10_000
    listen_backlog: int = 512  # the kernel's queue of connections that are not accepted yet
    frame_bytes_max: int = 100 * MEBIBYTE  # socket.request.max.bytes; a handler may lower it per peer
    receiving_bytes_max: int = 256 * MEBIBYTE  # held in unfinished frames of all connections together
    receiving_bytes_per_ip_max: int = 128 * MEBIBYTE  # the same of one address: more than the largest frame
    memory_bytes_max: int = 512 * MEBIBYTE  # held for all connections together: received, parked, unsent
    requests_in_flight_max: int = 256  # per connection: begun, and not yet handed to the kernel's side
    requests_per_pass_max: int = 256  # per connection: begun in one read pass
    pass_us_max: int = 2_000  # the same, in time: a pass ends with the request that exceeds it
    answer_bytes_per_pass_max: int = MEBIBYTE  # the same, of those that are answered at once
    unsent_bytes_max: int = MEBIBYTE  # response bytes per connection above which no further request is begun
    queued_requests_max: int | None = None  # queued.max.requests: of all connections, see `frames.request_queue`
    queued_bytes_max: int | None = None  # queued.max.request.bytes
    idle_ms_max: int = 600_000  # connections.max.idle.ms
    frame_ms_max: int = 30_000  # from one byte of a frame to the next, and to its last, but see the next line
    frame_rate_min_bytes_per_s: int = 16 * KIBIBYTE  # each second's worth of bytes earns the frame another second
    handshake_ms_max: int = 10_000  # of TLS
    closing_ms_max: int = 5_000  # for the peer to read what was written before the close
    drain_ms_max: int = 5_000  # for requests in flight when the node stops
    send_buffer_bytes: int | None = None  # of each socket in the kernel (SO_SNDBUF); None: the kernel's own
    receive_buffer_bytes: int | None = None  # the same for the other way (SO_RCVBUF)

    def __post_init__(self) -> None:
        for field in fields(self):
            bound = getattr(self, field.name)
            if bound is not None and bound < 1:
                raise ValueError(f"{field.name} must be at least 1")
