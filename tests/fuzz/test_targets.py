"""Every decoder on its seeds, on what fuzzing has found before, and on a few hundred mutations of both.

TEST_FUZZ=N tries N mutations of each target instead; `make fuzz` goes on for as long as one likes.
"""

import os
from collections.abc import Iterator
from random import Random

import pytest
from tests.fuzz.corpus import kept
from tests.fuzz.mutate import mutations
from tests.fuzz.node_targets import NODES, FuzzedNode, feed_sequence
from tests.fuzz.target import Target, check
from tests.fuzz.targets import TARGETS

from hutong.wire.kafka.apis.k01_fetch import FetchRequest, ReplicaState

MUTATIONS = int(os.environ.get("TEST_FUZZ", "300"))
MEASURED_EACH = 10  # measuring memory makes an input several times slower


@pytest.fixture(scope="module", autouse=True)
def node_put_away() -> Iterator[None]:
    yield
    NODES.close()


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_only_the_errors_it_names_get_out_of_a_decoder(target: Target) -> None:
    seeds = [*target.seeds(), *kept(target.name)]
    for number, data in enumerate(seeds):
        check(target, data, with_memory=number < 20)
    random = Random(target.name)
    for number, data in enumerate(mutations(seeds, max(1, MUTATIONS // target.slowness), random)):
        try:
            check(target, data, with_memory=number % MEASURED_EACH == 0)
        except BaseException as error:
            error.add_note(f"{target.name}: the input is {data.hex()}")
            raise


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_seeds_are_good_ones(target: Target) -> None:
    """At least one is decoded: else mutations would only ever meet the first check."""
    for data in target.seeds():
        try:
            target.decode(data)
        except target.errors:
            continue
        return
    pytest.fail("no seed is decoded")


def test_what_a_handler_raises_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fuzzer's own test: a fault of a handler, and one in what it leaves to the loop, are not lost on the way."""
    node = FuzzedNode()
    handler = node._gate.handler
    asked = next(iter(TARGETS["node"].seeds()))
    monkeypatch.setattr(handler, "request_received", lambda frame, peer: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        node.feed(asked)
    monkeypatch.setattr(handler, "request_received", lambda frame, peer: node._loop.call_soon(lambda: [][0]) and None)
    with pytest.raises(IndexError):
        node.feed(asked)
    node.close()


def test_what_a_sequence_sends_changes_no_message_of_others() -> None:
    for number in range(50):
        feed_sequence(bytes([number]))
    NODES.close()
    assert FetchRequest() == FetchRequest(replica_state=ReplicaState(-1, -1))
