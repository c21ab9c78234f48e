"""Each producer id is given once, also across crashes."""

from collections.abc import Callable

from hutong.broker.coordinators.producer_ids import PRODUCER_ID_BLOCK, ProducerIds
from hutong.foundation.errors import DiskFull, FlushFailed, HutongError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import WaitTable


class Records:
    """A state log whose records become durable when the test says so."""

    def __init__(self) -> None:
        self.durable: list[tuple[bytes, bytes | None]] = []
        self._pending: list[tuple[bytes, bytes | None, Callable[[HutongError | None], None]]] = []

    def append(self, key: bytes, value: bytes | None, then: Callable[[HutongError | None], None]) -> None:
        self._pending.append((key, value, then))

    def flush(self, error: HutongError | None = None) -> None:
        pending, self._pending = self._pending, []
        for key, value, then in pending:
            if error is None:
                self.durable.append((key, value))
            then(error)


def started(records: Records) -> ProducerIds:
    ids = ProducerIds(WaitTable("producer-ids", TimerWheel(0), 1000))
    for key, value in records.durable:
        ids.replay(key, value)
    ids.start(records)
    return ids


def test_an_id_is_given_only_below_a_durable_reservation() -> None:
    records, given = Records(), list[int | HutongError]()
    ids = started(records)
    ids.take(given.append)
    assert given == []
    records.flush()
    assert given == [0]
    ids.take(given.append)
    assert given == [0, 1]


def test_the_next_block_is_reserved_before_this_one_is_empty() -> None:
    records, given = Records(), list[int | HutongError]()
    ids = started(records)
    ids.take(given.append)
    records.flush()
    for _ in range(PRODUCER_ID_BLOCK + PRODUCER_ID_BLOCK // 4):
        ids.take(given.append)
        records.flush()
    assert given == list(range(len(given)))
    assert len(given) == 1 + PRODUCER_ID_BLOCK + PRODUCER_ID_BLOCK // 4


def test_no_id_is_given_twice_after_a_crash() -> None:
    records, given = Records(), list[int | HutongError]()
    for _ in range(3):
        ids = started(records)
        for _ in range(5):
            ids.take(given.append)
            records.flush()
    assert len(set(given)) == len(given) == 15


def test_those_who_wait_are_told_when_the_disk_fails() -> None:
    records, given = Records(), list[int | HutongError]()
    ids = started(records)
    ids.take(given.append)
    ids.take(given.append)
    records.flush(FlushFailed("the disk is gone"))
    assert [type(outcome) for outcome in given] == [FlushFailed, FlushFailed]


def test_a_reservation_that_failed_is_made_again() -> None:
    records, given = Records(), list[int | HutongError]()
    ids = started(records)
    ids.take(given.append)
    records.flush(DiskFull("no space"))
    ids.take(given.append)
    records.flush()
    assert given[1:] == [0]


def test_a_refusal_within_the_call_is_told_at_once() -> None:
    records, given = Records(), list[int | HutongError]()
    ids = started(records)
    refusal = DiskFull("no space")
    ids.reserve = lambda then: then(refusal)
    ids.take(given.append)
    assert given == [refusal]


def test_nodes_take_blocks_from_the_one_that_writes_the_records() -> None:
    records, given = Records(), list[int | HutongError]()
    controller, other = started(records), ProducerIds(WaitTable("producer-ids", TimerWheel(0), 1000))
    other.reserve = controller.allocate_block
    for number in range(2_500):
        (controller if number % 3 else other).take(given.append)
        records.flush()
    assert len(given) == 2_500
    assert len(set(given)) == 2_500


def test_another_writer_goes_on_behind_all_that_it_has_applied() -> None:
    records, given = Records(), list[int | HutongError]()
    nodes = [started(records), started(records)]
    for number in range(20):
        leader = nodes[number % 2]
        for _ in range(300):
            leader.take(given.append)
            before = len(records.durable)
            # The last record of a leader may fail, and be found in the log by the next one.
            records.flush(DiskFull("it leads no more") if number % 5 == 4 else None)
            for record in records.durable[before:]:
                nodes[1 - number % 2].replay(*record)
    found = [each for each in given if isinstance(each, int)]
    assert len(found) == len(set(found)) > 4_000
