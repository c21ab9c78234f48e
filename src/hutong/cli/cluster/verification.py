"""`hutong cluster verify`: all replicas in sync hold the same below the high watermark, or where they begin to differ.

Strategy: each node reads its own disk, a bounded part for each question, and answers with digests. The leader says how
far a part goes, and the others are asked for the same offsets. What is compared ends at the least high watermark that
the replicas know at the beginning, so producers may go on. Each answer says how far cleaning has been by then: a part
that it has overtaken is compared once more, record by record. A difference counts once it is found again at the same
place, as a log may have been trimmed or cut between two answers.

Knows nothing of the command line.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka.admin import AdminClient

from hutong.cli.cluster.asking import ClusterAccess
from hutong.cli.cluster.replica_digests import Difference, first_difference
from hutong.cli.kafka.client import REQUEST_TIMEOUT_SECONDS, with_internal
from hutong.cli.output import remark
from hutong.foundation.clock import Clock, SystemClock
from hutong.foundation.errors import ExitCode, UsageError
from hutong.foundation.pace import BytePace
from hutong.wire.kafka.apis.k10001_replica_digests import ReplicaDigestsRequest, ReplicaDigestsResponse
from hutong.wire.kafka.error_codes import ErrorCode

PART_BYTES_MAX: Final = 512 * 1024
LOOKS_MAX: Final = 3
LOOK_AGAIN_SECONDS: Final = 1.0
PROGRESS_SECONDS: Final = 2.0
_FINAL: Final = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_REQUEST)

Ask = Callable[[ReplicaDigestsRequest], ReplicaDigestsResponse]


@dataclass(frozen=True, slots=True)
class Replicas:
    """A partition, and the nodes to compare: those in sync, the leader first. `behind` are the others."""

    topic: str
    partition: int
    nodes: tuple[int, ...]
    behind: tuple[int, ...]


@dataclass(slots=True)
class Finding:
    """The outcome for one partition. `offsets` is how many were compared, all of them before `next_offset`."""

    replicas: Replicas
    group: str = ""
    offsets: int = 0
    next_offset: int = 0
    difference: Difference | None = None


@dataclass(slots=True)
class Verification:
    """All findings, and what the nodes have read for them."""

    findings: list[Finding] = field(default_factory=list)
    read_bytes: int = 0

    @property
    def differing(self) -> list[Finding]:
        return [each for each in self.findings if each.difference is not None]

    def group_rows(self) -> list[dict[str, Any]]:
        """A row for each group, by name."""
        rows: dict[str, dict[str, Any]] = {}
        for each in self.findings:
            empty = {"group": each.group, "partitions": 0, "offsets": 0, "not_in_sync": (), "differ": 0}
            row = rows.setdefault(each.group, empty)
            row["partitions"] += 1
            row["offsets"] += each.offsets
            row["not_in_sync"] = tuple(sorted({*row["not_in_sync"], *each.replicas.behind}))
            row["differ"] += each.difference is not None
        return [rows[name] for name in sorted(rows)]

    def difference_rows(self) -> list[dict[str, Any]]:
        return [
            {
                "group": each.group,
                "topic": each.replicas.topic,
                "partition": each.replicas.partition,
                "offset": each.difference.offset,
                "nodes": each.difference.nodes,
                "compared_with": tuple(n for n in each.replicas.nodes if n not in each.difference.nodes),
                "what": each.difference.what,
            }
            for each in self.findings
            if each.difference is not None
        ]


class Verifier:
    """Compares partition by partition, by asking nodes through `ask`."""

    def __init__(
        self, ask: Ask, pace: BytePace | None, clock: Clock, pause: Callable[[float], None] = time.sleep
    ) -> None:
        """`pace` is what all nodes together may read, None without a bound."""
        self.read_bytes = 0
        self._ask = ask
        self._pace = pace
        self._clock = clock
        self._pause = pause

    def verify(self, replicas: Replicas) -> Finding:
        """Compare one partition, up to its first difference."""
        finding = Finding(replicas)
        looks = 0
        while (found := self._compare(finding)) is not None:
            # A look that came further has met something else.
            is_new = finding.difference is None or found.offset > finding.difference.offset
            looks = 1 if is_new else looks + 1
            finding.difference = found
            if looks == LOOKS_MAX:
                return finding
            # Most differences between two answers are a log's start that moved, or a cut after an election.
            self._pause(LOOK_AGAIN_SECONDS)
        finding.difference = None
        return finding

    def _compare(self, finding: Finding) -> Difference | None:
        """Go on where the last look has stopped."""
        replicas = finding.replicas
        leader = replicas.nodes[0]
        try:
            known = {node: self._offsets(replicas, node) for node in replicas.nodes}
            finding.group = known[leader].group
            # What one replica has trimmed the others trim a moment later.
            offset = max(finding.next_offset, *(each.start_offset for each in known.values()))
            end = min(each.high_watermark for each in known.values())
            cleaned = {node: each.cleaned_offset for node, each in known.items()}
            while offset < end:
                # Where cleaning has been, batches differ though their records do not.
                by_record = offset < max(cleaned.values())
                limit = min(end, max(cleaned.values())) if by_record else end
                read = self._part(replicas, leader, offset, limit, cleaned, by_record=by_record)
                entries = {leader: read.entries}
                for node in replicas.nodes[1:]:
                    entries[node] = self._all_of(replicas, node, offset, read.next_offset, cleaned, by_record=by_record)
                # Cleaning has come here between two answers.
                if not by_record and offset < max(cleaned.values()):
                    continue
                difference = first_difference(leader, entries, cleaned if by_record else {})
                if difference is not None:
                    return difference
                finding.offsets += read.next_offset - offset
                offset = finding.next_offset = read.next_offset
        except _Failed as failed:
            return failed.difference
        return None

    def _all_of(
        self, replicas: Replicas, node: int, offset: int, limit: int, cleaned: dict[int, int], *, by_record: bool
    ) -> bytes:
        entries = b""
        while offset < limit:
            read = self._part(replicas, node, offset, limit, cleaned, by_record=by_record)
            entries += read.entries
            offset = read.next_offset
        return entries

    def _part(
        self, replicas: Replicas, node: int, offset: int, limit: int, cleaned: dict[int, int], *, by_record: bool
    ) -> ReplicaDigestsResponse:
        """Read a part, and note how far cleaning had been when it was read."""
        request = ReplicaDigestsRequest(
            node, replicas.topic, replicas.partition, offset, limit, PART_BYTES_MAX, by_record
        )
        response = self._answer(request)
        # Else the same question would be asked for ever.
        if response.next_offset <= offset:
            raise _Failed(Difference(offset, (node,), "is not readable"))
        cleaned[node] = max(cleaned[node], response.cleaned_offset)
        self.read_bytes += response.read_bytes
        self._keep_pace(response.read_bytes)
        return response

    def _keep_pace(self, read_bytes: int) -> None:
        if self._pace is not None:
            now_ms = self._clock.monotonic_ms()
            self._pace.count(read_bytes, now_ms)
            self._pause((self._pace.due_ms(now_ms) - now_ms) / 1000)

    def _offsets(self, replicas: Replicas, node: int) -> ReplicaDigestsResponse:
        return self._answer(ReplicaDigestsRequest(node, replicas.topic, replicas.partition))

    def _answer(self, request: ReplicaDigestsRequest) -> ReplicaDigestsResponse:
        response = self._ask(request)
        if response.error_code in _FINAL:
            raise UsageError(f"{(response.error_message or 'Refused').rstrip('.')}.", ExitCode.NOPERM)
        if response.error_code:
            reason = response.error_message or f"error {response.error_code}"
            raise _Failed(Difference(request.offset, (request.node_id,), f"cannot be read: {reason}"))
        return response


class _Failed(Exception):
    """A node has not answered."""

    def __init__(self, difference: Difference) -> None:
        super().__init__(difference)
        self.difference = difference


def replicas_in(admin: AdminClient) -> Iterator[Replicas]:
    """The partitions with a leader and others in sync to compare it with. Raises KafkaException."""
    topics = with_internal(admin, admin.list_topics(timeout=REQUEST_TIMEOUT_SECONDS).topics)
    for name in sorted(topics):
        for index, partition in sorted(topics[name].partitions.items()):
            others = tuple(sorted(node for node in partition.isrs if node != partition.leader))
            behind = tuple(sorted(set(partition.replicas) - set(partition.isrs)))
            # Without a leader nobody knows what is committed.
            if partition.leader >= 0:
                yield Replicas(name, index, (partition.leader, *others), behind)


def verify_cluster(bootstrap: str, replicas: list[Replicas], bytes_per_second: int) -> Verification:
    """Compare all of these, with progress on standard error; 0 bytes per second: no bound. Raises UsageError."""
    access, done = ClusterAccess(bootstrap), Verification()
    verifier = Verifier(access.request, BytePace(bytes_per_second) if bytes_per_second else None, SystemClock())
    said_s = time.monotonic()
    try:
        for number, each in enumerate(replicas, 1):
            done.findings.append(verifier.verify(each))
            done.read_bytes = verifier.read_bytes
            if time.monotonic() > said_s + PROGRESS_SECONDS:
                said_s = time.monotonic()
                remark(f"{number} of {len(replicas)} partitions, {done.read_bytes >> 20} MiB read.")
    finally:
        access.close()
    return done
