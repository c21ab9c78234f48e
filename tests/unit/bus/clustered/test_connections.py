"""Connections of other nodes: what one read brings is taken together, once it is known whose connection it is."""

from collections.abc import Sequence

from hutong.bus.clustered.connections import FRAMES_MAX, AcceptedConnections
from hutong.reactor.connections.handler import Peer
from hutong.reactor.frames.framing import LengthPrefixedFraming
from hutong.wire.vertx.cluster_frames import FRAME_BYTES_MAX, ClusterFrame, encode
from hutong.wire.vertx.usual_frames import UsualFrame


class Taken:
    """What came, and how it came."""

    node = "other"

    def __init__(self) -> None:
        self.single: list[str] = []
        self.together: list[int] = []
        self.bytes_total = 0

    def frame_received(self, frame: ClusterFrame, size: int) -> None:
        self.single.append(frame.address)
        self.bytes_total += size

    def usual_received(self, node: str, frames: Sequence[UsualFrame], size: int) -> None:
        assert node == self.node
        self.together.append(len(frames))
        self.bytes_total += size


def message(address: str = "place", sender: str = "other") -> bytes:
    return encode(ClusterFrame(9, address, sender, b"\0\0\0\1x"))


def opened(taken: Taken) -> tuple[AcceptedConnections, Peer]:
    handler = AcceptedConnections("own", taken)
    peer = Peer(1, "127.0.0.1", 1, LengthPrefixedFraming(FRAME_BYTES_MAX))
    handler.connection_opened(peer)
    return handler, peer


def test_the_first_message_says_whose_connection_it_is() -> None:
    taken = Taken()
    handler, peer = opened(taken)
    assert peer.express is not None
    assert peer.express.take_requests(message(), 10) is None
    handler.request_received(message("first")[4:], peer)
    assert peer.express.take_requests(message(), 10) == (1, len(message()), [])
    # Those of another sender are for the careful way, which closes the connection.
    assert peer.express.take_requests(message(sender="third"), 10) is None
    assert (taken.single, taken.together) == (["first"], [1])
    assert taken.bytes_total == len(message("first")) + len(message())


def test_all_messages_of_a_read_are_taken_together_whatever_may_be_in_flight() -> None:
    taken = Taken()
    handler, peer = opened(taken)
    handler.request_received(message()[4:], peer)
    assert peer.express is not None
    data = (FRAMES_MAX + 1) * message()
    assert peer.express.take_requests(memoryview(data), 2) == (FRAMES_MAX, FRAMES_MAX * len(message()), [])
    assert taken.together == [FRAMES_MAX]


def test_what_comes_by_a_connection_that_was_given_up_is_not_taken() -> None:
    taken = Taken()
    handler, peer = opened(taken)
    handler.request_received(message()[4:], peer)
    newer = Peer(2, "127.0.0.1", 2, LengthPrefixedFraming(FRAME_BYTES_MAX))
    handler.connection_opened(newer)
    handler.request_received(message()[4:], newer)
    assert peer.express is not None
    assert peer.express.take_requests(message(), 10) is None
    handler.connection_closed(newer)
