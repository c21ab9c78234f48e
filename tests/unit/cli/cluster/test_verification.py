"""The comparison of replicas, against nodes that answer from a script: parts, cleaning, second looks, the throttle."""

from collections.abc import Callable

import pytest

from hutong.cli.cluster.verification import LOOKS_MAX, Finding, Replicas, Verifier
from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import UsageError
from hutong.foundation.pace import BytePace
from hutong.journal.read.digests import ENTRY
from hutong.wire.kafka.apis.k10001_replica_digests import ReplicaDigestsRequest, ReplicaDigestsResponse
from hutong.wire.kafka.error_codes import ErrorCode

LEADER, FOLLOWER = 1, 2
REPLICAS = Replicas("orders", 0, (LEADER, FOLLOWER), ())
PART = 10  # offsets in one answer


class Replica:
    """One replica: what it has at each offset, and where its parts end."""

    def __init__(self, end: int, part: int = PART) -> None:
        self.values = {offset: b"%08d" % offset for offset in range(end)}
        self.end = end
        self.part = part
        self.start = self.cleaned = 0
        self.error = ErrorCode.NONE


class Nodes:
    """Both replicas; `before` is called before each answer."""

    def __init__(self, leader: Replica, follower: Replica) -> None:
        self.replicas = {LEADER: leader, FOLLOWER: follower}
        self.asked: list[ReplicaDigestsRequest] = []
        self.paused: list[float] = []
        self.before: Callable[[ReplicaDigestsRequest], None] = lambda _request: None

    def ask(self, request: ReplicaDigestsRequest) -> ReplicaDigestsResponse:
        self.before(request)
        self.asked.append(request)
        replica = self.replicas[request.node_id]
        if replica.error:
            return ReplicaDigestsResponse(error_code=replica.error, error_message="its disk is gone")
        response = ReplicaDigestsResponse(
            error_message=None,
            group="days",
            start_offset=replica.start,
            high_watermark=replica.end,
            cleaned_offset=replica.cleaned,
        )
        if request.limit_offset >= 0:
            end = min(request.offset + replica.part, request.limit_offset)
            found = [(at, replica.values[at]) for at in range(request.offset, end) if at in replica.values]
            response.next_offset, response.read_bytes = end, 100
            response.entries = b"".join(ENTRY.pack(*entry) for entry in found)
        return response

    def verify(self) -> Finding:
        return Verifier(self.ask, None, ManualClock(), self.paused.append).verify(REPLICAS)


def test_parts_of_other_lengths_are_put_together_and_the_least_high_watermark_is_the_end() -> None:
    nodes = Nodes(Replica(100), Replica(95, part=3))
    found = nodes.verify()
    assert (found.group, found.offsets, found.difference) == ("days", 95, None)
    assert max(request.limit_offset for request in nodes.asked) == 95
    assert not nodes.paused


def test_the_first_difference_is_told_after_it_was_found_again() -> None:
    nodes = Nodes(Replica(100), Replica(100))
    nodes.replicas[FOLLOWER].values[42] = b"another!"
    del nodes.replicas[FOLLOWER].values[77]
    found = nodes.verify()
    assert found.difference == (42, (FOLLOWER,), "is not the same")
    assert len(nodes.paused) == LOOKS_MAX - 1


def test_what_was_trimmed_between_two_answers_is_no_difference() -> None:
    nodes = Nodes(Replica(100), Replica(100))

    def trim(request: ReplicaDigestsRequest) -> None:
        """The follower's log loses its beginning after the nodes were asked where it is."""
        if request.limit_offset >= 0 and request.node_id == FOLLOWER and not nodes.replicas[FOLLOWER].start:
            nodes.replicas[FOLLOWER].start = 50
            for offset in range(50):
                del nodes.replicas[FOLLOWER].values[offset]

    nodes.before = trim
    assert nodes.verify().difference is None
    assert len(nodes.paused) == 1


def test_where_cleaning_has_been_records_are_compared_and_may_be_missing_there_alone() -> None:
    nodes = Nodes(Replica(100), Replica(100))
    nodes.replicas[FOLLOWER].cleaned = 60
    for offset in (5, 6, 30):
        del nodes.replicas[FOLLOWER].values[offset]
    assert nodes.verify().difference is None
    by_record = {request.by_record for request in nodes.asked if 0 <= request.offset < 60 and request.limit_offset >= 0}
    whole = {request.by_record for request in nodes.asked if request.offset >= 60}
    assert (by_record, whole) == ({True}, {False})
    del nodes.replicas[LEADER].values[40]
    assert nodes.verify().difference == (40, (LEADER,), "is missing")


def test_cleaning_that_overtakes_the_comparison_is_no_difference() -> None:
    """It goes on at full speed: before each part it has been a little further than at the last look."""
    nodes = Nodes(Replica(100), Replica(100))
    follower = nodes.replicas[FOLLOWER]

    def clean(request: ReplicaDigestsRequest) -> None:
        if request.node_id == FOLLOWER and request.limit_offset >= 0:
            follower.cleaned = min(100, request.offset + 5)
            follower.values = {at: value for at, value in follower.values.items() if at >= follower.cleaned or at % 2}

    nodes.before = clean
    found = nodes.verify()
    assert (found.difference, found.offsets) == (None, 100)
    assert not nodes.paused


def test_differences_that_are_gone_at_the_next_look_are_none_however_many() -> None:
    """Each time the log's beginning has moved on."""
    nodes = Nodes(Replica(100), Replica(100))
    follower = nodes.replicas[FOLLOWER]

    def trim(request: ReplicaDigestsRequest) -> None:
        if request.limit_offset >= 0 and request.node_id == FOLLOWER and follower.start == request.offset < 90:
            follower.start += 5
            follower.values = {at: value for at, value in follower.values.items() if at >= follower.start}

    nodes.before = trim
    assert nodes.verify().difference is None
    assert len(nodes.paused) > LOOKS_MAX


def test_a_node_that_cannot_read_is_told_with_its_reason() -> None:
    nodes = Nodes(Replica(10), Replica(10))
    nodes.replicas[FOLLOWER].error = ErrorCode.KAFKA_STORAGE_ERROR
    assert nodes.verify().difference == (0, (FOLLOWER,), "cannot be read: its disk is gone")


def test_a_read_that_failed_in_the_middle_of_a_part_is_made_up_for_from_its_beginning() -> None:
    nodes = Nodes(Replica(20), Replica(20, part=3))
    nodes.replicas[FOLLOWER].values[11] = b"another!"
    failures = [ErrorCode.KAFKA_STORAGE_ERROR]

    def fail_once(request: ReplicaDigestsRequest) -> None:
        is_middle = request.node_id == FOLLOWER and request.offset == 16
        nodes.replicas[FOLLOWER].error = failures.pop() if is_middle and failures else ErrorCode.NONE

    nodes.before = fail_once
    assert nodes.verify().difference == (11, (FOLLOWER,), "is not the same")
    assert not failures


def test_a_node_that_does_not_get_on_ends_the_comparison() -> None:
    nodes = Nodes(Replica(10), Replica(10, part=0))
    assert nodes.verify().difference == (0, (FOLLOWER,), "is not readable")


def test_one_who_may_not_ask_is_told_so() -> None:
    nodes = Nodes(Replica(10), Replica(10))
    nodes.replicas[LEADER].error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with pytest.raises(UsageError):
        nodes.verify()


def test_reads_keep_a_pace_and_a_pause_is_not_made_up_for() -> None:
    nodes, clock = Nodes(Replica(2 * PART), Replica(2 * PART)), ManualClock()

    def pause(seconds: float) -> None:
        nodes.paused.append(seconds)
        clock.advance(round(seconds * 1000))

    verifier = Verifier(nodes.ask, BytePace(200), clock, pause)
    verifier.verify(REPLICAS)
    assert nodes.paused == [0.5] * 4, "of two parts on two nodes, with 100 bytes each"
    clock.advance(10_000)
    verifier.verify(REPLICAS)
    assert nodes.paused[4:] == [0.5] * 4
