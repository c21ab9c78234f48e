"""Connections: in order, with back-pressure, and what each end learns when something breaks."""

import errno
import gc
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.testing.simulation.scene import Noting, Scene

from hutong.testing.simulation.clients.connection import Disconnected, KafkaConnection
from hutong.testing.simulation.clients.routing.routes import Routes
from hutong.testing.simulation.faults.injector import FaultInjector
from hutong.testing.simulation.network.connections import WINDOW_BYTES
from hutong.testing.simulation.plan.faults import PlannedFault
from hutong.wire.kafka.apis.k22_init_producer_id import InitProducerIdRequest


def test_bytes_arrive_whole_and_in_order_in_both_directions() -> None:
    scene = Scene()
    ours, theirs = scene.pair()
    sent = b"".join(b"%d," % number for number in range(2_000))
    for start in range(0, len(sent), 97):
        ours.transport.write(sent[start : start + 97])
    theirs.transport.writelines([b"an", b"swer"])
    scene.pass_seconds(1)
    assert (theirs.received, ours.received) == (sent, b"answer")
    assert ours.transport.get_extra_info("peername") == (scene.other.address, 9)


def test_nobody_listens() -> None:
    with pytest.raises(ConnectionRefusedError):
        Scene().connect()


def test_an_address_in_use_is_refused() -> None:
    scene = Scene()
    scene.listen()
    with pytest.raises(OSError, match="in use") as refused:
        scene.listen()
    assert refused.value.errno == errno.EADDRINUSE


def test_a_sender_pauses_while_the_reader_does_not_read() -> None:
    scene = Scene()
    ours, theirs = scene.pair()
    theirs.transport.pause_reading()
    ours.transport.write(bytes(WINDOW_BYTES))
    scene.pass_seconds(1)
    assert ours.calls == []
    ours.transport.write(bytes(1_000_000))
    assert ours.calls == ["pause"]
    assert ours.transport.get_write_buffer_size() == 1_000_000
    theirs.transport.resume_reading()
    scene.pass_seconds(10)
    assert ours.calls == ["pause", "resume"]
    assert len(theirs.received) == WINDOW_BYTES + 1_000_000


def test_a_close_ends_when_all_is_sent() -> None:
    scene = Scene()
    ours, theirs = scene.pair()
    theirs.transport.pause_reading()
    ours.transport.write(bytes(WINDOW_BYTES + 1))
    ours.transport.close()
    scene.pass_seconds(10)
    assert ours.lost == []
    theirs.transport.resume_reading()
    scene.pass_seconds(1)
    assert len(theirs.received) == WINDOW_BYTES + 1
    assert (ours.lost, theirs.calls) == ([None], ["eof"])


def test_an_abort_ends_a_close_that_waits() -> None:
    scene = Scene()
    ours, theirs = scene.pair()
    theirs.transport.pause_reading()
    ours.transport.write(bytes(WINDOW_BYTES + 1))
    ours.transport.close()
    scene.pass_seconds(1)
    ours.transport.abort()
    scene.pass_seconds(1)
    assert ours.lost == [None]
    assert [type(error) for error in theirs.lost] == [ConnectionResetError]


def test_segments_stay_large_although_the_reader_takes_small_pieces() -> None:
    scene = Scene()
    ours, theirs = scene.pair()
    reads: list[int] = []
    theirs.data_received = lambda data: reads.append(len(data))  # type: ignore[method-assign]
    theirs.transport.pause_reading()
    for _ in range(200):
        ours.transport.write(bytes(100_003))
    theirs.transport.resume_reading()
    scene.pass_seconds(60, lambda: sum(reads) == 200 * 100_003)
    assert sum(reads) == 200 * 100_003
    # Two segments for each write, and one read in twenty has only a part of one.
    assert len(reads) < 3 * 200


def test_a_close_comes_after_what_was_written() -> None:
    scene = Scene()
    ours, theirs = scene.pair()
    ours.transport.write(b"last")
    ours.transport.close()
    scene.pass_seconds(1)
    assert (theirs.received, theirs.calls, theirs.lost, ours.lost) == (b"last", ["eof"], [None], [None])


def test_an_abort_is_a_reset_for_the_other_end() -> None:
    scene = Scene()
    ours, theirs = scene.pair()
    ours.transport.abort()
    scene.pass_seconds(1)
    assert ours.lost == [None]
    assert isinstance(theirs.lost[0], ConnectionResetError)


def test_a_reset_as_from_a_firewall_is_one_for_both_ends() -> None:
    scene = Scene()
    ours, theirs = scene.pair()
    chance: Any = SimpleNamespace(random=lambda: 0.0)
    faults = FaultInjector(scene.world, scene.network, [], [])
    faults._reset(PlannedFault(0, "reset", 1, 1), chance, None)  # type: ignore[arg-type]  # no node has a part in it
    scene.pass_seconds(1)
    assert [type(error) for error in (*ours.lost, *theirs.lost)] == [ConnectionResetError] * 2
    assert scene.network.connections == []


def test_a_killed_process_resets_its_connections() -> None:
    scene = Scene()
    ours, _ = scene.pair()
    scene.other.kill()
    scene.pass_seconds(1)
    assert isinstance(ours.lost[0], ConnectionResetError)


def test_after_a_loss_of_power_the_other_end_learns_it_only_by_sending_to_the_new_process() -> None:
    scene = Scene()
    ours, _ = scene.pair()
    scene.other.kill(with_power=True)
    scene.pass_seconds(600)
    assert ours.lost == []
    scene.other.start()
    ours.transport.write(b"hello?")
    scene.pass_seconds(1)
    assert isinstance(ours.lost[0], ConnectionResetError)


def test_after_a_loss_of_power_a_sender_learns_it_although_its_window_is_full() -> None:
    scene = Scene()
    ours, theirs = scene.pair()
    theirs.transport.pause_reading()
    ours.transport.write(bytes(2 * WINDOW_BYTES))
    scene.pass_seconds(1)
    scene.other.kill(with_power=True)
    scene.pass_seconds(60)
    assert ours.lost == []
    scene.other.start()
    scene.pass_seconds(10)
    assert isinstance(ours.lost[0], ConnectionResetError)


def test_a_process_that_dies_before_its_answer_to_a_connect_has_arrived_resets_the_connection() -> None:
    scene = Scene()
    taken = scene.listen()
    client, connected = scene.process(scene.one), list[Noting]()

    async def connect() -> None:
        _, protocol = await client.loop.create_connection(Noting, scene.other.address, 9)
        assert isinstance(protocol, Noting)
        connected.append(protocol)

    client.run(connect)
    scene.pass_seconds(1, lambda: bool(taken))
    assert connected == []
    scene.other.kill()
    scene.pass_seconds(1)
    assert isinstance(connected[0].lost[0], ConnectionResetError)


def test_what_was_sent_over_a_cut_link_arrives_once_it_is_mended() -> None:
    scene = Scene()
    ours, theirs = scene.pair()
    scene.network.cut("one", "other")
    ours.transport.write(b"late")
    theirs.transport.write(b"the other way")
    scene.pass_seconds(10)
    assert (theirs.received, ours.received) == (b"", b"the other way")
    scene.network.mend("one", "other")
    scene.pass_seconds(10)
    assert theirs.received == b"late"


def test_what_a_link_holds_arrives_at_once_when_it_is_mended() -> None:
    """Without the wait of a sender that sends it again."""
    scene = Scene()
    ours, theirs = scene.pair()
    scene.network.hold("one", "other")
    ours.transport.write(b"held")
    theirs.transport.write(b"heard")
    scene.pass_seconds(2)
    assert (theirs.received, ours.received) == (b"", b"heard")
    scene.network.mend("one", "other")
    scene.pass_seconds(0.001)
    assert theirs.received == b"held"


def test_a_sender_gives_up_after_a_while() -> None:
    scene = Scene()
    ours, _ = scene.pair()
    scene.network.cut("one", "other")
    ours.transport.write(b"lost")
    scene.pass_seconds(60)
    assert isinstance(ours.lost[0], TimeoutError)


def test_nobody_answers_over_a_cut_link() -> None:
    scene = Scene()
    scene.listen()
    scene.network.cut("other", "one")
    with pytest.raises(TimeoutError):
        scene.connect()


def test_a_slow_link_delays() -> None:
    scene = Scene()
    ours, theirs = scene.pair()
    scene.network.slow_down("one", "other", 10_000)
    ours.transport.write(b"slow")
    scene.pass_seconds(0.9)
    assert theirs.received == b""
    scene.pass_seconds(10)
    assert theirs.received == b"slow"


def test_requests_that_nobody_waits_for_may_fail() -> None:
    scene = Scene()
    scene.listen()

    async def ask() -> None:
        address = (scene.other.address, 9)
        routes = Routes([address], Random(1))
        connection = await KafkaConnection.connect(scene.process(scene.one), "one", address, routes)
        under_way = connection.begin(InitProducerIdRequest(None, 1_000), 4)
        connection.close()
        too_late = connection.begin(InitProducerIdRequest(None, 1_000), 4)
        for future in (under_way, too_late):
            assert isinstance(future.exception(), Disconnected)
        connection.begin(InitProducerIdRequest(None, 1_000), 4)

    scene.run(scene.one, ask)
    gc.collect()  # asyncio speaks of an error that nobody took when the future is collected
    assert scene.one.failures == []


def test_bytes_for_a_connection_that_was_closed_reset_it() -> None:
    scene = Scene()
    ours, theirs = scene.pair()
    scene.network.cut("one", "other")
    ours.transport.close()
    theirs.transport.write(b"late")
    scene.pass_seconds(1)
    assert [type(error) for error in theirs.lost] == [ConnectionResetError]
