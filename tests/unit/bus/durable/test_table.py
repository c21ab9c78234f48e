"""A table as the state port of a machine's host, without a broker: several records, and one end for all of them."""

import asyncio

from hutong.bus.durable.table import CompactedTable, TableLost
from hutong.foundation.errors import HutongError, LimitExceeded, StorageError
from hutong.foundation.waiting.pending import Continuation


class HeldTable(CompactedTable):
    """Keeps its writes, and has room for two."""

    def __init__(self) -> None:
        super().__init__("table", {}, {})
        self._loop = asyncio.get_running_loop()
        self.writes: list[Continuation[None]] = []

    def put(self, key: bytes, value: bytes | None, settled: Continuation[None]) -> None:
        if self.failure is not None:
            raise self.failure
        if len(self.writes) == 2:
            raise LimitExceeded("publish_in_flight_max", 2)
        self.writes.append(settled)


RECORDS = [(b"a", b"1"), (b"b", None)]


async def test_records_end_together_when_the_last_of_them_is_stored() -> None:
    table, ended = HeldTable(), list[HutongError | None]()
    table.append_all(RECORDS, ended.append)
    table.writes[0](None)
    assert ended == []
    table.writes[1](None)
    assert ended == [None]


async def test_one_failure_is_that_of_all() -> None:
    table, ended = HeldTable(), list[HutongError | None]()
    table.append_all(RECORDS, ended.append)
    failure = StorageError("no")
    table.writes[0](failure)
    assert ended == []
    table.writes[1](None)
    assert ended == [failure]


async def test_a_refusal_is_reported_later_like_a_failure() -> None:
    table, ended = HeldTable(), list[HutongError | None]()
    table.append_all([*RECORDS, (b"c", b"3")], ended.append)
    for settled in table.writes:
        settled(None)
    assert ended == [], "not within the call"
    await asyncio.sleep(0)
    assert [type(end) for end in ended] == [LimitExceeded]
    table.failure = TableLost("closed")
    table.append_all(RECORDS, ended.append)
    await asyncio.sleep(0)
    assert ended[1:] == [table.failure]
