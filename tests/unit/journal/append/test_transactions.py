"""Transactions of a log: how far a committed reader may go, and what was aborted, through stops, crashes and trims."""

import struct
from random import Random

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.journal.stage import DIRECTORY, Stage

from hutong.foundation.errors import HutongError, Refused
from hutong.journal.append.log_appends import Appended
from hutong.journal.append.producers import ProducerState, RememberedBatch
from hutong.journal.append.transactions import LogTransactions
from hutong.journal.log import PartitionLog
from hutong.journal.recover.checkpoint import Checkpoint, LogState, encode_checkpoint, parse_checkpoint
from hutong.wire.kafka.batch.control_records import Marker, build_marker, parse_marker
from hutong.wire.kafka.batch.records import TRANSACTIONAL, parse_batch_header

Outcome = Appended | HutongError


def send(stage: Stage, producer_id: int, sequence: int, *values: bytes, epoch: int = 0, plain: bool = False) -> Outcome:
    append = stage.append(
        1,
        *values,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        attributes=0 if plain else TRANSACTIONAL,
    )
    stage.settle()
    assert append.outcome is not None
    return append.outcome


def end(
    stage: Stage, producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0
) -> HutongError | None:
    outcomes: list[HutongError | None] = []
    stage.journal.log(1).append_marker(
        producer_id, epoch, is_commit=commit, coordinator_epoch=coordinator_epoch, then=outcomes.append
    )
    stage.settle()
    (outcome,) = outcomes
    return outcome


def code_of(outcome: Outcome | None) -> int:
    assert isinstance(outcome, Refused), outcome
    return outcome.code


def state_of(log: PartitionLog) -> object:
    transactions = log.transactions
    assert transactions is not None
    assert log.producers is not None
    producers = {
        producer_id: (state.epoch, state.coordinator_epoch, state.batches)
        for producer_id, state in log.producers.states().items()
    }
    rows = list(transactions.aborted.rows())
    return (
        log.start_offset,
        log.high_watermark,
        log.last_stable_offset,
        list(transactions.open.items()),
        rows,
        producers,
    )


def test_a_log_without_transactions_is_stable_up_to_the_high_watermark() -> None:
    stage = Stage()
    stage.append(1, b"a")
    stage.settle()
    log = stage.journal.log(1)
    assert log.last_stable_offset == log.high_watermark == 1
    assert log.transactions is None
    assert log.aborted_between(0, 9) == []


def test_the_oldest_open_transaction_holds_committed_readers() -> None:
    stage = Stage()
    log = stage.journal.log(1)
    send(stage, 7, 0, b"a")
    send(stage, 8, 0, b"b")
    send(stage, 7, 1, b"c")
    assert (log.open_transaction(7), log.open_transaction(8), log.open_transaction(9)) == (0, 1, None)
    assert (log.last_stable_offset, log.high_watermark) == (0, 3)
    end(stage, 7, commit=False)
    assert log.last_stable_offset == 1
    assert log.aborted_between(0, 4) == [(7, 0)]
    end(stage, 8, commit=True)
    assert log.last_stable_offset == log.high_watermark == 5
    assert log.aborted_between(0, 5) == [(7, 0)]
    assert log.aborted_between(4, 5) == []


def test_an_end_counts_once_its_marker_is_visible() -> None:
    stage = Stage()
    log = stage.journal.log(1)
    send(stage, 7, 0, b"a")
    outcomes: list[HutongError | None] = []
    log.append_marker(7, 0, is_commit=True, coordinator_epoch=0, then=outcomes.append)
    stage.turn()
    assert not outcomes
    assert log.open_transaction(7) is None
    assert log.last_stable_offset == 0
    stage.settle()
    assert outcomes
    assert log.last_stable_offset == 2


def test_markers_are_refused_from_old_epochs_and_old_coordinators() -> None:
    stage = Stage()
    send(stage, 7, 0, b"a", epoch=3)
    assert code_of(end(stage, 7, commit=True, epoch=2)) == 47
    assert end(stage, 7, commit=True, epoch=3, coordinator_epoch=5) is None
    assert code_of(end(stage, 7, commit=True, epoch=3, coordinator_epoch=4)) == 52
    assert end(stage, 99, commit=False, epoch=0) is None, "nothing to end is no reason to refuse"
    assert stage.journal.log(1).aborted_between(0, 99) == []


def test_a_marker_may_raise_the_epoch() -> None:
    stage = Stage()
    send(stage, 7, 0, b"a", b"b")
    end(stage, 7, commit=True, epoch=1)
    assert code_of(send(stage, 7, 2, b"late")) == 47
    assert code_of(send(stage, 7, 1, b"gap", epoch=1)) == 45
    assert isinstance(send(stage, 7, 0, b"next", epoch=1), Appended)


def test_plain_batches_have_no_place_in_a_transaction() -> None:
    stage = Stage()
    send(stage, 7, 0, b"a")
    assert code_of(send(stage, 7, 1, b"b", plain=True)) == 48
    assert isinstance(send(stage, 8, 0, b"other", plain=True), Appended)
    end(stage, 7, commit=True)
    assert isinstance(send(stage, 7, 1, b"b", plain=True), Appended)


@pytest.mark.parametrize("how", ["stop", "crash", "checkpoint and crash", "no checkpoint"])
def test_a_start_finds_transactions_as_they_were(how: str) -> None:
    stage = Stage()
    for number in range(4):
        send(stage, 7, number, b"seven-%d" % number)
        send(stage, 8, number, b"eight-%d" % number)
        end(stage, 7, commit=number % 2 == 0, coordinator_epoch=number)
    if how == "checkpoint and crash":
        stage.journal.checkpointer.begin_checkpoint()
        stage.settle()
    send(stage, 9, 0, b"nine")
    end(stage, 8, commit=False)
    before = state_of(stage.journal.log(1))
    if how == "stop":
        stage.close()
    else:
        stage.crash(Random(1))
    if how == "no checkpoint":
        stage.disk.unlink(DIRECTORY / "checkpoint") if "checkpoint" in stage.disk.list(DIRECTORY) else None
    stage.open()
    assert state_of(stage.journal.log(1)) == before
    assert code_of(send(stage, 9, 1, b"plain", plain=True)) == 48
    assert isinstance(send(stage, 9, 1, b"nine"), Appended)


def test_what_was_aborted_is_forgotten_with_the_log_before_it() -> None:
    stage = Stage()
    log = stage.journal.log(1)
    send(stage, 7, 0, b"a")
    end(stage, 7, commit=False)
    send(stage, 7, 1, b"b")
    end(stage, 7, commit=False)
    log.delete_before(1)
    assert log.aborted_between(0, 9) == [(7, 0), (7, 2)]
    log.delete_before(2)
    assert log.aborted_between(0, 9) == [(7, 2)]
    send(stage, 7, 2, b"c")
    log.delete_before(5)
    assert log.last_stable_offset == log.start_offset == 5


def test_a_producer_in_a_transaction_is_not_forgotten() -> None:
    stage = Stage()
    send(stage, 7, 0, b"a")
    stage.advance(8 * 86_400_000)
    send(stage, 8, 0, b"b")
    producers = stage.journal.log(1).producers
    assert producers is not None
    assert list(producers.states()) == [8, 7]


def test_a_marker_is_what_kafka_writes() -> None:
    marker = build_marker(7, 3, is_commit=True, coordinator_epoch=9, timestamp_ms=1_000)
    header = parse_batch_header(marker)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, -1)
    assert parse_marker(marker) == Marker(is_commit=True, coordinator_epoch=9)
    assert marker.endswith(bytes.fromhex("08 0000 0001 0c 0000 00000009 00"))
    assert parse_marker(marker[:61]) is None


def test_a_checkpoint_of_the_first_version_is_still_read() -> None:
    body = struct.pack(">?iQI", True, 3, 99, 1) + struct.pack(">IqqI", 5, 10, 20, 1)
    body += struct.pack(">qhBq", 7, 2, 1, 1234) + struct.pack(">iiq", 0, 4, 15)
    found = parse_checkpoint(struct.pack(">4sII", b"HtCp", 1, crc32c(body)) + body)
    log = found.logs[5]
    assert (found.position, log.start_offset, log.end_offset) == (99, 10, 20)
    assert log.producers[7].batches == (RememberedBatch(0, 4, 15),)
    assert not log.open
    assert not len(log.aborted)


numbers = st.integers(0, 2**62)
opened = st.lists(st.tuples(numbers, numbers), max_size=4)
aborted = st.lists(st.tuples(numbers, numbers, numbers, numbers), max_size=4)


@given(opened, aborted, st.integers(-1, 2**31 - 1))
def test_checkpoints_keep_transactions(
    opened: list[tuple[int, int]], aborted: list[tuple[int, int, int, int]], coordinator_epoch: int
) -> None:
    rows = LogTransactions(rows=[number for row in aborted for number in row]).aborted.rows()
    producers = {1: ProducerState(2, 3, (), coordinator_epoch)}
    written = Checkpoint(1, 2, False, {7: LogState(1, 2, producers, opened, rows), 8: LogState(3, 4)})
    found = parse_checkpoint(encode_checkpoint(written))
    assert found.logs[7].open == opened
    assert found.logs[7].aborted == rows
    assert found.logs[7].producers[1].coordinator_epoch == coordinator_epoch
    assert (found.logs[8].start_offset, found.logs[8].end_offset) == (3, 4)


steps = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from(["write", "write", "commit", "abort", "flush", "trim"])), max_size=60
)


@given(steps)
def test_readers_are_told_what_a_plain_account_says(steps: list[tuple[int, str]]) -> None:
    """The same history, kept in the simplest way there is."""
    transactions, end_offset, high_watermark, start_offset = LogTransactions(), 0, 0, 0
    history: list[tuple[int, int, int | None, bool]] = []  # producer, first, marker, is aborted
    for producer_id, step in steps:
        running = [number for number, entry in enumerate(history) if entry[0] == producer_id and entry[2] is None]
        if step == "write":
            transactions.begin_transaction(producer_id, end_offset)
            if not running:
                history.append((producer_id, end_offset, None, False))
        elif step == "flush":
            high_watermark = end_offset
        elif step == "trim":
            start_offset = (start_offset + high_watermark) // 2
            transactions.aborted.forget_before(start_offset)
        else:
            transactions.end(producer_id, end_offset, is_commit=step == "commit")
            for number in running:
                history[number] = (*history[number][:2], end_offset, step == "abort")
        end_offset += step in ("write", "commit", "abort")
        unstable = [first for _, first, marker, _ in history if marker is None or marker >= high_watermark]
        assert transactions.stable_offset(high_watermark) == min([high_watermark, *unstable])
        transactions.check_invariants()
    for first in range(start_offset, end_offset):
        for last in range(first + 1, end_offset + 1):
            expected = {
                (producer_id, begun)
                for producer_id, begun, marker, is_aborted in history
                if is_aborted and marker is not None and marker >= first and begun < last
            }
            assert set(transactions.aborted.between(first, last)) == expected
