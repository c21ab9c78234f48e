import pytest

from hutong.pipelines.errors import BadRecord
from hutong.pipelines.jobs.pagerank import Link, contributions_of, parse_link


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
