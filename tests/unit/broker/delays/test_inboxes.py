"""Inboxes: what Kafka's clients produce there comes to another topic at its time."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from tests.unit.broker.wire_node import WireClient, client_of, opened_node

from hutong.broker.delays.inboxes import DELAY_MS, DELIVER_AT_MS, inbox_record
from hutong.broker.delays.steps import DeliveryPlace
from hutong.foundation.clock import SystemClock
from hutong.wire.kafka.batch.records import Record, build_batch, iterate_batches, iterate_records

PLACE = DeliveryPlace("t", 0)
Headers = Sequence[tuple[str, bytes | None]]
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("headers", "due_ms"),
    [
        ([], 0),
        ([(DELIVER_AT_MS, b"500")], 500),
        ([(DELAY_MS, b"500")], 1_500),
        ([("other", b"9"), (DELAY_MS, b"1"), (DELIVER_AT_MS, b"5")], 1_001),
        ([(DELIVER_AT_MS, b"x"), (DELIVER_AT_MS, b""), (DELIVER_AT_MS, None), (DELIVER_AT_MS, b"-5")], 0),
        ([(DELIVER_AT_MS, b"9" * 16)], 0),
        ([(DELAY_MS, "٣".encode())], 0),
    ],
)
def test_the_time_of_a_record(headers: Headers, due_ms: int) -> None:
    record = Record(7, 1_000, b"k", b"v", headers)
    assert inbox_record(PLACE, record) == (due_ms, PLACE, record)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[WireClient]:
    async with opened_node(tmp_path) as addresses, client_of(addresses.kafka) as connected:
        yield connected


async def put(client: WireClient, value: bytes, headers: Headers = (), topic: str = "t.delayed") -> int:
    record = Record(timestamp_ms=SystemClock().wall_ms(), key=b"k", value=value, headers=[*headers])
    answer = await client.produce(build_batch([record]), topic, acks=-1)
    assert answer.error_code == 0
    return answer.base_offset


async def records(client: WireClient, count: int, topic: str = "t") -> list[Record]:
    """So many records of a topic, from its start."""
    found: list[Record] = []
    while len(found) < count:
        data = await client.fetch(len(found), topic, max_wait_ms=20_000)
        assert data.error_code == 0
        assert isinstance(data.records, bytes | bytearray | memoryview)
        batches = iterate_batches(memoryview(data.records))
        found = [*found, *(each for _, batch in batches for each in iterate_records(batch))]
    return found


async def test_a_record_comes_to_its_topic_at_its_time(client: WireClient) -> None:
    await client.create("t", hutong_delay="true")
    await client.create("t.delayed")
    due_ms = SystemClock().wall_ms() + 1_500
    headers = [("other", None), (DELIVER_AT_MS, b"%d" % due_ms)]
    assert await put(client, b"later", headers) == 0
    assert await put(client, b"now") == 1
    assert await put(client, b"soon", [(DELAY_MS, b"100")]) == 2
    found = {each.value: each for each in await records(client, 3)}
    assert found.keys() == {b"now", b"soon", b"later"}
    assert (found[b"later"].key, list(found[b"later"].headers)) == (b"k", headers)
    assert found[b"later"].timestamp_ms >= due_ms


async def test_an_inbox_may_come_first_and_go_last(client: WireClient) -> None:
    await client.create("t.delayed")
    await put(client, b"early")
    await client.create("t", hutong_delay="true")
    assert [each.value for each in await records(client, 1)] == [b"early"]
    await client.delete("t")
    await put(client, b"kept")
    await client.create("t", hutong_delay="true")
    assert [each.value for each in await records(client, 1)] == [b"kept"]
    await client.delete("t.delayed")
    await client.create("t.delayed")
    await put(client, b"of a new one")
    assert [each.value for each in await records(client, 2)] == [b"kept", b"of a new one"]


async def test_without_the_setting_there_is_no_inbox(client: WireClient) -> None:
    await client.create("t")
    await client.create("t.delayed")
    await put(client, b"x")
    assert (await records(client, 1, "t.delayed"))[0].value == b"x"
    assert (await client.fetch(0)).high_watermark == 0


async def test_what_waits_survives_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    due_ms = SystemClock().wall_ms() + HOUR_MS
    async with opened_node(tmp_path) as addresses, client_of(addresses.kafka) as client:
        await client.create("t", hutong_delay="true")
        await client.create("t.delayed")
        await put(client, b"later", [(DELIVER_AT_MS, b"%d" % due_ms)])
        await put(client, b"now")
        assert [each.value for each in await records(client, 1)] == [b"now"]
    monkeypatch.setattr(SystemClock, "wall_ms", lambda _clock: due_ms)
    async with opened_node(tmp_path) as addresses, client_of(addresses.kafka) as client:
        # What has left the inbox is delivered again where its node was stopped at once; so is "now".
        found = await records(client, 2)
        assert {each.value for each in found} == {b"now", b"later"}
