"""Flusher and replicator beside each other: what each level of service waits for, whichever of the two comes last."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.journal.stage import SMALL, Append, Stage

from hutong.foundation.errors import HutongError, LimitExceeded, OwnerGone, Refused
from hutong.journal.append.log_appends import Appended
from hutong.journal.append.qos import Qos
from hutong.journal.append.replicator import JournalStream, ReplicationProgress
from hutong.journal.settings import JournalSettings

ABOVE_RECEIVE = (Qos.PERSISTENCE, Qos.REPLICATION, Qos.ALL)


class Followers:
    """A replicator by hand: it ships what it is told to, and commits when the test says so."""

    def __init__(self) -> None:
        self.sealed_position = 0
        self.stored_position = 0
        self.shipped = bytearray()
        self.is_stopped = False

    def start(self, stream: JournalStream, progress: ReplicationProgress) -> None:
        self.stream = stream
        self.progress = progress
        self.is_stopped = False

    def sealed(self, end_position: int) -> None:
        self.sealed_position = end_position

    def stop(self) -> None:
        self.is_stopped = True

    def hold(self) -> None:
        """Ship what is there: the others have it in memory, and on disk what they had there before."""
        views = self.stream.view(len(self.shipped), self.sealed_position)
        assert views is not None, "what the others do not hold is still in the cache"
        for view in views:
            self.shipped += view
        self.progress.replicated(len(self.shipped), self.stored_position)

    def store(self) -> None:
        """The others flush what they hold."""
        self.stored_position = len(self.shipped)
        self.progress.replicated(len(self.shipped), self.stored_position)

    def commit(self) -> None:
        """Ship what is there, and have it flushed by all."""
        self.hold()
        self.store()


def replicated(settings: JournalSettings = SMALL) -> tuple[Stage, Followers]:
    followers = Followers()
    return Stage(settings, replicator=followers), followers


def open_levels(appends: list[Append]) -> list[Qos]:
    return [qos for qos, append in zip(ABOVE_RECEIVE, appends, strict=True) if append.is_open]


def append_at_all_levels(stage: Stage) -> list[Append]:
    appends = [stage.append(1, b"v", qos=qos) for qos in ABOVE_RECEIVE]
    stage.turn()
    return appends


def flush(stage: Stage) -> None:
    while stage.steps.work():
        stage.steps.tell()


def test_a_commit_that_lags_the_flush_releases_all_that_waits_for_replicas() -> None:
    stage, followers = replicated()
    appends = append_at_all_levels(stage)
    flush(stage)
    assert open_levels(appends) == [Qos.REPLICATION, Qos.ALL]
    assert stage.journal.log(1).high_watermark == 0, "not visible before the others have it"
    followers.commit()
    assert open_levels(appends) == []
    assert stage.journal.log(1).high_watermark == 3


def test_a_flush_that_ends_after_the_last_commit_waits_for_no_further_commit() -> None:
    """JoyQueue releases ALL inside its commit alone, so there such an acknowledgement waits for the next commit."""
    stage, followers = replicated()
    appends = append_at_all_levels(stage)
    followers.commit()
    assert open_levels(appends) == [Qos.PERSISTENCE, Qos.ALL]
    assert stage.journal.log(1).high_watermark == 0, "not visible before it is flushed"
    flush(stage)
    assert open_levels(appends) == []
    assert stage.journal.log(1).high_watermark == 3


def test_what_others_hold_in_memory_alone_is_replicated_and_not_committed() -> None:
    stage, followers = replicated()
    appends = append_at_all_levels(stage)
    followers.hold()
    flush(stage)
    assert open_levels(appends) == [Qos.ALL]
    assert stage.journal.log(1).high_watermark == 0, "a power loss of all could take it"
    followers.store()
    assert open_levels(appends) == []
    assert stage.journal.log(1).high_watermark == 3


@given(st.lists(st.sampled_from(["append", "hold", "store", "flush", "seal", "fail"]), max_size=40))
def test_whatever_comes_last_each_level_is_released_by_its_own_positions(script: list[str]) -> None:
    roomy = replace(SMALL, region_bytes=1 << 16, chunk_bytes_max=1 << 14, dirty_bytes_max=1 << 20)
    stage, followers = replicated(roomy)
    waiting: list[tuple[int, Qos, Append]] = []
    noted: list[tuple[Qos, Append]] = []
    has_failed = False
    for step in script:
        if step == "append":
            noted += [(qos, stage.append(1, b"v", qos=qos)) for qos in ABOVE_RECEIVE]
        elif step == "seal":
            stage.turn()
            waiting += [(stage.journal.position, qos, append) for qos, append in noted]
            noted.clear()
        elif step in ("hold", "store"):
            followers.hold() if step == "hold" else followers.store()
            has_failed = False
        elif step == "fail":
            followers.progress.replication_failed(OwnerGone("gone"))
            has_failed = True
        else:
            stage.steps.work()
            stage.steps.tell()
        stage.journal.check_invariants()
        progress = stage.journal.progress
        flushed, held = progress.flushed_position, len(followers.shipped)
        passed = {Qos.PERSISTENCE: flushed, Qos.REPLICATION: held, Qos.ALL: min(flushed, followers.stored_position)}
        if has_failed:
            told = [entry for entry in waiting if entry[1] > Qos.PERSISTENCE and entry[0] > passed[entry[1]]]
            assert all(isinstance(append.outcome, Refused) for _, _, append in told)
            waiting = [entry for entry in waiting if entry not in told]
        assert all(append.is_open == (position > passed[qos]) for position, qos, append in waiting)
        assert all(append.is_open for _, append in noted)
        assert stage.journal.log(1).high_watermark <= stage.journal.log(1).sealed_offset


def test_the_replicator_gets_the_very_bytes_that_are_flushed() -> None:
    stage, followers = replicated()
    for number in range(20):
        stage.append(1 + number % 3, bytes(100))
        stage.turn()
        if number % 4 == 0:
            followers.commit()
            stage.settle()
    followers.commit()
    stage.settle()
    stored = bytearray()
    for segment in stage.journal._parts.segments.all():
        file = stage.disk.open(segment.path)
        size = (segment.end_position or stage.journal.position) - segment.base_position
        stored += file.read(size, 0)
    assert followers.shipped == stored


def test_without_replicas_who_waits_for_them_is_told_and_the_rest_goes_on() -> None:
    stage, followers = replicated()
    appends = append_at_all_levels(stage)
    followers.progress.replication_failed(OwnerGone("two of three nodes are gone"))
    for append in appends[1:]:
        assert isinstance(append.outcome, Refused)
        assert append.outcome.code == 20  # NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert "two of three nodes are gone" in str(append.outcome)
    assert appends[0].is_open
    flush(stage)
    assert appends[0].base_offset == 0
    later = append_at_all_levels(stage)
    assert open_levels(later) == [Qos.PERSISTENCE]
    flush(stage)
    assert later[0].base_offset == 3
    assert stage.journal.log(1).high_watermark == 0, "no replicas, nothing new to read"
    followers.commit()
    assert stage.journal.log(1).high_watermark == 6
    again = append_at_all_levels(stage)
    assert open_levels(again) == list(ABOVE_RECEIVE)
    followers.commit()
    flush(stage)
    assert open_levels(again) == []


def test_lagging_replicas_congest_and_keep_their_bytes_in_memory() -> None:
    stage, followers = replicated()
    heard: list[bool] = []
    stage.journal.watch_congestion(heard.append)
    for _ in itertools.takewhile(lambda _: not heard, range(1000)):
        stage.append(1, bytes(200))
        stage.settle()
    assert stage.journal.flushed_position == stage.journal.position
    assert stage.journal.position >= SMALL.dirty_bytes_max > SMALL.cached_bytes_max
    followers.commit()  # asserts that all of it can still be shipped
    assert heard == [True, False]


def test_without_replicas_their_lag_neither_congests_nor_keeps_memory() -> None:
    stage, followers = replicated()
    followers.progress.replication_failed(OwnerGone("gone"))
    for _ in range(100):
        stage.append(1, bytes(200))
        stage.settle()
    assert not stage.journal.is_congested
    assert stage.journal.cache.cached_bytes <= SMALL.cached_bytes_max + 2 * SMALL.region_bytes
    assert stage.journal.log(1).end_offset == 100


def test_how_long_replicas_took_is_measured_per_chunk() -> None:
    stage, followers = replicated()
    stage.append(1, b"v", qos=Qos.ALL)
    stage.turn()
    stage.clock.advance(8)
    stage.append(1, b"v", qos=Qos.ALL)
    stage.turn()
    followers.commit()
    replicate_us = stage.journal.figures.replicate_us
    assert (replicate_us.count, replicate_us.sum) == (2, 8_000)


def test_a_node_alone_commits_what_it_seals() -> None:
    stage = Stage()
    appends = append_at_all_levels(stage)
    assert open_levels(appends) == [Qos.PERSISTENCE, Qos.ALL]
    assert stage.journal.log(1).high_watermark == 0
    flush(stage)
    assert open_levels(appends) == []
    assert stage.journal.figures.replicate_us.count == 0


@pytest.mark.parametrize("how", ["close", "abort"])
def test_the_replicator_ends_with_its_journal(how: str) -> None:
    stage, followers = replicated()
    append = stage.append(1, b"v", qos=Qos.ALL)
    stage.turn()
    if how == "close":
        stage.close()
    else:
        stage.journal.abort()
    assert isinstance(append.outcome, OwnerGone)
    assert followers.is_stopped


def test_more_acknowledgements_than_there_is_room_for_are_refused() -> None:
    stage = Stage(replace(SMALL, acknowledgements_max=2))
    appends = [stage.append(1, b"v") for _ in range(3)]
    stage.turn()
    assert all(isinstance(append.outcome, LimitExceeded) for append in appends)
    fitting = [stage.append(1, b"v") for _ in range(2)]
    stage.settle()
    outcomes: list[Appended | HutongError | None] = [append.outcome for append in fitting]
    assert all(isinstance(outcome, Appended) for outcome in outcomes)


def test_a_repetition_of_what_is_flushed_and_not_committed_waits_for_the_commit() -> None:
    stage, followers = replicated()
    sent = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    stage.append(1, b"v", qos=Qos.ALL, **sent)
    stage.turn()
    flush(stage)
    again = stage.append(1, b"v", qos=Qos.ALL, **sent)
    assert again.is_open
    followers.commit()
    assert again.base_offset == 0
