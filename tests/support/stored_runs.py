"""Both ways to make runs of stored messages, and what each makes of the same records."""

from unittest import mock

from hutong.broker.rocketmq.records import converted, plain_batches, stored_runs
from hutong.broker.rocketmq.records.collected import Collected
from hutong.broker.rocketmq.records.converted import ConvertedBatches
from hutong.broker.rocketmq.records.plain_batches import Collecting
from hutong.broker.rocketmq.records.stored_forms import QueueOfForms, StoredForm
from hutong.broker.rocketmq.records.stored_runs import RunBounds, RunOf, StoredRun, next_run, python_run
from hutong.foundation.errors import ProtocolError
from hutong.wire.kafka.apis.k01_fetch import PartitionData
from hutong.wire.kafka.batch.records import BatchHeader

ALL = RunBounds(-(2**63), 2**31, 2**31)


def ways() -> list[RunOf]:
    """The reference, and the compiled pass where it is built."""
    compiled = [stored_runs._compiled_run] if stored_runs._compiled is not None else []
    return [python_run, *compiled]


def forms_of(
    way: RunOf, data: bytes, header: BatchHeader, queue: QueueOfForms, bounds: RunBounds = ALL
) -> list[StoredForm]:
    """All messages, run by run. Raises ProtocolError."""
    position, left, found = 0, header.record_count, list[StoredForm]()
    while left > 0:
        with mock.patch.object(stored_runs, "stored_run", way):
            run = next_run(data, header, queue, position, left, bounds)
        assert run.position > position
        position, left = run.position, left - run.walked
        found += [run.form(index) for index in range(len(run.offsets))]
    if position != len(data):
        raise ProtocolError("bytes follow the last record")
    return found


def check_agreement(data: bytes, header: BatchHeader, queue: QueueOfForms, bounds: RunBounds = ALL) -> None:
    """Raises AssertionError where the two make different runs from any position that one of them comes to."""
    position, left = 0, header.record_count
    while left > 0:
        runs = [_plain(way(data, header, queue, position, left, bounds)) for way in ways()]
        assert runs == [runs[0]] * len(runs)
        try:
            run = next_run(data, header, queue, position, left, bounds)
        except ProtocolError:
            return
        position, left = run.position, left - run.walked


def _plain(run: StoredRun) -> tuple[object, ...]:
    return run.stored, run.places.tolist(), run.position, run.walked


def collected_alike(pieces: list[memoryview], queue: QueueOfForms, limits: tuple[int, int, int]) -> Collected | None:
    """The messages of an answer by one call and batch by batch, which are the same; None where both fail."""
    outcomes: list[object] = []
    found = None
    for way in {plain_batches.stored_batches, None}:
        found = Collected(*limits)
        # Records in front of the offset are passed over by both, whatever they are.
        passed_over = mock.patch.object(converted, "BATCH_BYTES_MAX", -1)
        with passed_over, mock.patch.object(plain_batches, "stored_batches", way):
            try:
                Collecting(found, queue, ConvertedBatches()).collect(PartitionData(0, records=[*pieces]))
            # Its sentence may count the bytes from elsewhere.
            except ProtocolError:
                found = None
                outcomes.append(ProtocolError)
            else:
                outcomes.append((b"".join(found.pieces), found.count, found.size, found.next_offset))
    assert outcomes == [outcomes[0]] * len(outcomes)
    return found
