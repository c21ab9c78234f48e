"""The memory of Arrow batches: shared by several fetches, used again, and never while somebody holds it."""

import pyarrow as pa
import pytest
from tests.unit.pipelines.batches import record_set

from hutong.pipelines.source.decode import decoder as decoder_module
from hutong.pipelines.source.decode.columns import ARENA_BYTES, ARENA_ROWS, Arenas
from hutong.pipelines.source.decode.decoder import Decoder
from hutong.pipelines.source.decode.index import index_batches
from hutong.pipelines.source.fetching import RecordSet
from hutong.pipelines.source.options import COLUMNS
from hutong.wire.kafka.batch.records import Record


def fetched(values: list[bytes | None], base_offset: int) -> RecordSet:
    content = memoryview(record_set([[Record(key=b"k", value=value) for value in values]], base_offset))
    return RecordSet(content, index_batches(content), ())


def values_of(table: pa.RecordBatch) -> list[bytes | None]:
    values: list[bytes | None] = table.column("value").to_pylist()
    return values


def test_several_fetches_share_an_arrow_batch() -> None:
    sets = [fetched([b"a", None], 0), fetched([b"b"], 2)]
    (table,) = Decoder("t", 0, tuple(COLUMNS)).decode_all(sets, 0, 9)
    assert values_of(table) == [b"a", None, b"b"]
    assert table.column("offset").to_pylist() == [0, 1, 2]


def test_batches_that_are_held_keep_their_values_while_more_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_module, "ARROW_BATCH_BYTES", 1)
    sets = [fetched([b"%d" % number, None], 2 * number) for number in range(20)]
    held = list(Decoder("t", 0, tuple(COLUMNS)).decode_all(sets, 0, 99))
    assert [values_of(table) for table in held] == [[b"%d" % number, None] for number in range(20)]


def test_memory_that_nobody_holds_is_used_again_and_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_module, "ARROW_BATCH_BYTES", 1)
    places, rows = [], []
    nulls: list[bytes | None] = [None] * 9
    others: list[bytes | None] = [b"x"] * 9
    sets = [fetched(nulls if number % 2 else others, 9 * number) for number in range(20)]
    for table in Decoder("t", 0, ("value",)).decode_all(sets, 0, 999):
        places.append(table.column(0).buffers()[2].address)
        rows.append(values_of(table))
    assert len(set(places)) <= 2
    assert rows == [nulls if number % 2 else others for number in range(20)]


def test_a_part_of_a_batch_holds_all_of_its_memory() -> None:
    arenas = Arenas(("offset",))
    arena = arenas.empty(1, 1)
    lease = arena.lend()
    array = pa.Array.from_buffers(pa.int64(), 1, [None, pa.foreign_buffer(arena.columns.offsets.ctypes.data, 8, lease)])
    del lease
    part = array.slice(0, 1)
    del array
    assert arenas.empty(1, 1) is not arena
    del part
    assert arenas.empty(1, 1) is arena


def test_what_is_larger_than_an_arena_gets_one_of_its_own() -> None:
    arenas = Arenas(("offset",))
    assert arenas.empty(ARENA_ROWS + 1, 1).has_room(ARENA_ROWS + 1, 1)
    assert arenas.empty(1, ARENA_BYTES + 1).has_room(1, ARENA_BYTES + 1)
