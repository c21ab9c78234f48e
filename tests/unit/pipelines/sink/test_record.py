"""Records as notes: what is written is read, and what is not a record is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import ProtocolError, UsageError
from hutong.pipelines.client.cluster import TopicPartition
from hutong.pipelines.client.group_offsets import OffsetAndMetadata
from hutong.pipelines.client.identities import Identity, Producer
from hutong.pipelines.sink.commit.machine import BatchDecision, TaskTransaction
from hutong.pipelines.sink.commit.record import (
    NOTES_MAX,
    TRANSACTIONS_PER_NOTE,
    decision_of,
    newest,
    note_count,
    notes,
    transactional_id,
)

METADATA_BYTES_MAX = 4096
LONG, INT, SHORT = 2**63 - 1, 2**31 - 1, 2**15 - 1
QUERY = "0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"
numbers = st.integers(0, LONG)
written = st.builds(
    TaskTransaction,
    st.integers(0, INT),
    st.builds(
        Identity,
        st.from_regex(r"[a-f0-9]{10}-[0-9]{1,6}", fullmatch=True).map(lambda suffix: transactional_id(QUERY, suffix)),
        st.builds(Producer, numbers, st.integers(0, SHORT)),
    ),
    numbers,
)


@given(batch=numbers, transactions=st.lists(written, min_size=1, max_size=3 * TRANSACTIONS_PER_NOTE))
def test_what_is_written_is_read(batch: int, transactions: list[TaskTransaction]) -> None:
    decision = BatchDecision(batch, len(transactions), tuple(transactions))
    stored = notes(QUERY, decision, "run")
    assert all(len(note.committed.metadata) <= METADATA_BYTES_MAX for note in stored)
    assert len({note.group for note in stored}) == len(stored) == note_count(stored[0].committed)
    assert decision_of(QUERY, [note.committed for note in stored]) == (decision, "run")


def test_the_largest_note_fits() -> None:
    one = TaskTransaction(INT, Identity(transactional_id(QUERY, "0123456789-999999"), Producer(LONG, SHORT)), LONG)
    (note,) = notes(QUERY, BatchDecision(LONG, INT, (one,) * TRANSACTIONS_PER_NOTE), QUERY)
    assert len(note.committed.metadata) <= METADATA_BYTES_MAX


def test_too_many_tasks_are_refused() -> None:
    one = TaskTransaction(0, Identity(transactional_id(QUERY, "w-0"), Producer(1, 0)), 1)
    with pytest.raises(UsageError, match="too large to be written exactly once: coalesce it to at most 49152"):
        notes(QUERY, BatchDecision(0, 1, (one,) * (NOTES_MAX * TRANSACTIONS_PER_NOTE + 1)), "run")


@pytest.mark.parametrize(
    "metadata",
    [
        "",
        "[]",
        "{}",
        "[" * 5000,
        '{"of":0,"run":"","tasks":1,"did":[]}',
        '{"of":true,"run":"","tasks":1,"did":[]}',
        '{"of":1,"run":"","tasks":1,"did":[[1]]}',
        '{"of":1,"run":"","tasks":1,"did":[7]}',
        '{"of":1,"run":"","tasks":1,"did":[["0","w",1,1,1]]}',
    ],
)
def test_what_is_no_record_is_told(metadata: str) -> None:
    note = OffsetAndMetadata(3, metadata)
    with pytest.raises(ProtocolError, match="do not commit offsets for groups whose names begin with hutong-sink-"):
        decision_of(QUERY, [note])


def test_a_record_with_a_part_of_another_batch_is_none() -> None:
    one = TaskTransaction(0, Identity(transactional_id(QUERY, "w-0"), Producer(1, 0)), 1)
    parts = [note.committed for note in notes(QUERY, BatchDecision(5, 60, (one,) * 60), "run")]
    with pytest.raises(ProtocolError):
        decision_of(QUERY, [parts[0], parts[1]._replace(offset=4)])


def test_the_newest_note_counts() -> None:
    older, newer = OffsetAndMetadata(3, "older"), OffsetAndMetadata(4, "newer")
    assert newest({}) is None
    assert newest({TopicPartition("b", 0): older, TopicPartition("a", 0): newer}) == (TopicPartition("a", 0), newer)
