from typing import Any

import pytest

from hutong.pipelines.errors import BadRecord
from hutong.pipelines.jobs.pagerank.links import Link, parse_batches, parse_link
from hutong.pipelines.jobs.pagerank.tuples import contributions_of

pa = pytest.importorskip("pyarrow")


@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("a\tb", Link("a", "b")),
        ("a b\tc d\r\n", Link("a b", "c d")),
        ("self\tself", Link("self", "self")),
    ],
)
def test_a_link_is_source_tab_target(text: str, link: Link) -> None:
    assert parse_link(text, "t", 0, 0) == link


@pytest.mark.parametrize("text", [None, "", "a", "a\t", "\tb", "a\tb\tc", "a b"])
def test_what_is_no_link_is_named_by_its_place(text: str | None) -> None:
    with pytest.raises(BadRecord, match="the record at offset 17 of links-3 is not source, tab, target"):
        parse_link(text, "links", 3, 17)


def test_only_the_beginning_of_a_long_record_is_shown() -> None:
    with pytest.raises(BadRecord) as told:
        parse_link("x" * 10_000, "t", 0, 0)
    assert len(str(told.value)) < 200


def test_a_page_shares_its_rank_among_its_links() -> None:
    assert list(contributions_of(iter(["b", "c", "d"]), 1.5)) == [("b", 0.5), ("c", 0.5), ("d", 0.5)]


def records(*values: bytes | None) -> Any:
    count = len(values)
    columns = {"value": pa.array(values, pa.binary()), "topic": ["links"] * count, "partition": [3] * count}
    return pa.RecordBatch.from_pydict({**columns, "offset": list(range(10, 10 + count))})


def test_batches_are_parsed_as_single_records_are() -> None:
    values = (b"a\tb", b"a b\tc d\r\n", "é\t字".encode(), b"self\tself", b"a\tb")
    (links,) = parse_batches(iter([records(*values)]))
    assert [tuple(row.values()) for row in links.to_pylist()] == [
        parse_link(value.decode(), "links", 3, 0) for value in values
    ]
    assert links.schema.names == ["source", "target"]


def test_an_empty_batch_has_no_links() -> None:
    (links,) = parse_batches(iter([records()]))
    assert links.num_rows == 0


@pytest.mark.parametrize("value", [None, b"", b"a", b"a\t", b"\tb", b"a\tb\tc", b"a b", b"\xff\tb", b"\r\n"])
def test_the_first_record_of_a_batch_that_is_no_link_is_named(value: bytes | None) -> None:
    with pytest.raises(BadRecord, match="the record at offset 11 of links-3 is not source, tab, target"):
        list(parse_batches(iter([records(b"a\tb", value, b"neither")])))
