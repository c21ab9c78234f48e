"""Ids of schemas in a batch: what the walk finds is what decoded records begin with."""

from hypothesis import given
from hypothesis import strategies as st

from hutong.wire.kafka.batch.record_walk import RECORDS_NAMED_MAX
from hutong.wire.kafka.batch.records import HEADER_BYTES, Record, build_batch, iterate_records
from hutong.wire.kafka.batch.schema_ids import SchemaIds, schema_ids_of

FIELDS = st.none() | st.binary(max_size=8) | st.binary(max_size=200) | st.integers(0, 3).map(lambda each: framed(each))
RECORDS = st.builds(
    Record,
    timestamp_ms=st.integers(0, 2**40),
    key=FIELDS,
    value=FIELDS,
    headers=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=2),
)


def framed(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + b"payload"


def reference(batch: bytes, *, of_keys: bool) -> SchemaIds:
    first: dict[int, int] = {}
    without: list[int] = []
    for index, record in enumerate(iterate_records(memoryview(batch))):
        field = record.key if of_keys else record.value
        if field is not None and (len(field) < 5 or field[0]):
            without.append(index)
        elif field is not None:
            first.setdefault(int.from_bytes(field[1:5], "big"), index)
    return SchemaIds(first, without)


@given(st.lists(RECORDS, min_size=1, max_size=20), st.booleans())
def test_the_walk_finds_what_records_begin_with(records: list[Record], of_keys: bool) -> None:
    batch = build_batch(records)
    assert schema_ids_of(batch, HEADER_BYTES, len(records), of_keys=of_keys) == reference(batch, of_keys=of_keys)


def test_no_more_records_are_named_than_need_be() -> None:
    count = 3 * RECORDS_NAMED_MAX
    batch = build_batch([Record(timestamp_ms=1, key=None, value=b"plain")] * count)
    assert schema_ids_of(batch, HEADER_BYTES, count, of_keys=False).without == [*range(RECORDS_NAMED_MAX)]
