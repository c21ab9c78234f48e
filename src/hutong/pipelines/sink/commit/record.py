"""The record of a batch's transactions, in the offsets of consumer groups without members.

Groups exist on every cluster, need no topic of ours, and take offsets in a transaction (KIP-98), which makes a record
atomic and fences an older driver. The record is the metadata of one offset per group. Brokers bound it by
`offset.metadata.max.bytes` (4096): a longer record is spread over more groups, all written at once.

    group hutong-sink-QUERY, -QUERY.1, …   partition 0 of a topic that the sink writes
    offset                                 the batch
    metadata                               {"of": 2, "run": "…", "tasks": 9, "did": [[7, "a1-0", 41, 3, 25], …]}
                                           task, end of the transactional id, producer id, epoch, rows

A version of an application's writes (`txnAppId`, `txnVersion`) is recorded in the same way: `QUERY` is then
`app-ID:TOPIC:`, and the offset the version. Once all of it is committed, the record is written again without
transactions: brokers may forget those, and workers use their ids again.

Brokers forget offsets of a group without members after `offsets.retention.minutes` (7 days), as they forget
transactional ids.

Pure: text and values.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hutong.foundation.errors import ProtocolError, UsageError
from hutong.pipelines.client.cluster import TopicPartition
from hutong.pipelines.client.group_offsets import OffsetAndMetadata
from hutong.pipelines.client.identities import Identity, Producer
from hutong.pipelines.option_values import typed
from hutong.pipelines.sink.commit.machine import BatchDecision, TaskTransaction

PREFIX = "hutong-"
GROUP_PREFIX = "hutong-sink-"
OWNER_SUFFIX = "driver"
APPLICATION_PREFIX = "app-"
APPLICATION_END = ":"
"""No topic or `txnAppId` has one, so no application's prefix is the beginning of another's."""
TRANSACTIONS_PER_NOTE = 48
"""So that a note stays below 4096 bytes with the largest numbers in it."""
NOTES_MAX = 1024


class Note(NamedTuple):
    """One part of a record."""

    group: str
    committed: OffsetAndMetadata


class RecordedDecision(NamedTuple):
    """A decision as read: with the run of the query that made it, and its partition."""

    decision: BatchDecision
    run_id: str
    place: TopicPartition


def transactional_id(query_id: str, suffix: str) -> str:
    """All ids of a query begin with the same prefix, so that they can be found."""
    return f"{id_prefix(query_id)}{suffix}"


def id_prefix(query_id: str) -> str:
    return f"{PREFIX}{query_id}-"


def owner_id(query_id: str) -> str:
    """The id under which a driver records; taking it shuts out an older driver of the query."""
    return transactional_id(query_id, OWNER_SUFFIX)


def group_of(query_id: str, number: int) -> str:
    return f"{GROUP_PREFIX}{query_id}" + (f".{number}" if number else "")


def application_query(app_id: str, topic: str | None) -> str:
    """The name under which versions of an application's writes to a topic are recorded; None: a column names topics."""
    return f"{APPLICATION_PREFIX}{app_id}{APPLICATION_END}{topic or ''}{APPLICATION_END}"


def name_of(query_id: str) -> str:
    """The query or application in words, for errors."""
    if not query_id.endswith(APPLICATION_END):
        return f"the query {query_id}"
    app_id, topic, _ = query_id.removeprefix(APPLICATION_PREFIX).split(APPLICATION_END)
    return f"txnAppId '{app_id}' of " + (f"topic {topic}" if topic else "writes without the option topic")


def notes(query_id: str, decision: BatchDecision, run_id: str) -> list[Note]:
    """A decision as it is stored. Raises UsageError for more tasks than a record can hold."""
    prefix = id_prefix(query_id)
    rows = [
        [one.task, one.identity.transactional_id.removeprefix(prefix), *one.identity.producer, one.row_count]
        for one in decision.transactions
    ]
    firsts = range(0, max(len(rows), 1), TRANSACTIONS_PER_NOTE)  # without rows one note, too
    parts = [rows[first : first + TRANSACTIONS_PER_NOTE] for first in firsts]
    if len(parts) > NOTES_MAX:
        raise UsageError(
            f"a batch of {len(rows)} tasks is too large to be written exactly once: coalesce it to at most "
            f"{NOTES_MAX * TRANSACTIONS_PER_NOTE} partitions"
        )
    return [
        Note(
            group_of(query_id, number),
            OffsetAndMetadata(
                decision.batch_id,
                json.dumps(
                    {"of": len(parts), "run": run_id, "tasks": decision.task_count, "did": part},
                    separators=(",", ":"),
                ),
            ),
        )
        for number, part in enumerate(parts)
    ]


def newest(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> tuple[TopicPartition, OffsetAndMetadata] | None:
    """The newest of a group's notes: a sink whose topics change leaves some under each."""
    if not offsets:
        return None
    return max(offsets.items(), key=lambda item: (item[1].offset, item[0]))


def note_count(note: OffsetAndMetadata) -> int:
    """Return the number of notes in the record. Raises ProtocolError."""
    count = _content(note)["of"]
    if not 0 < count <= NOTES_MAX:
        raise _unreadable(note)
    return int(count)


def decision_of(query_id: str, parts: Sequence[OffsetAndMetadata]) -> tuple[BatchDecision, str]:
    """The decision and the run it was made in. Raises ProtocolError for what is not a whole record."""
    contents = [_content(part) for part in parts]
    if len({part.offset for part in parts}) != 1 or len(parts) != contents[0]["of"]:
        raise _unreadable(parts[0])
    try:
        transactions = tuple(
            TaskTransaction(
                typed(task, int),
                Identity(
                    transactional_id(query_id, typed(suffix, str)), Producer(typed(number, int), typed(epoch, int))
                ),
                typed(rows, int),
            )
            for content in contents
            for task, suffix, number, epoch, rows in content["did"]
        )
    except (TypeError, ValueError) as error:
        raise _unreadable(parts[0]) from error
    return BatchDecision(parts[0].offset, contents[0]["tasks"], transactions), contents[0]["run"]


def _content(note: OffsetAndMetadata) -> dict[str, Any]:
    try:
        content = typed(json.loads(note.metadata), dict)
        typed(content["of"], int), typed(content["tasks"], int), typed(content["run"], str), typed(content["did"], list)
    except (ValueError, KeyError, RecursionError) as error:
        raise _unreadable(note) from error
    return content


def _unreadable(note: OffsetAndMetadata) -> ProtocolError:
    return ProtocolError(
        f"what a group of the sink says of batch {note.offset} is no record of ours: do not commit offsets for groups "
        f"whose names begin with {GROUP_PREFIX}"
    )
