"""Names of segments, and which files of a directory count."""

from hypothesis import given
from hypothesis import strategies as st

from hutong.journal.files.segment import SegmentName, parse_segment_name, select_segments

POSITIONS = st.integers(0, 10**19)
WRITTEN = POSITIONS.map(SegmentName)
CLEANED = st.builds(SegmentName, POSITIONS, POSITIONS, st.integers(0, 2**40), st.integers(1, 10**6))


@given(st.one_of(WRITTEN, CLEANED))
def test_a_name_says_what_it_was_made_of(name: SegmentName) -> None:
    assert parse_segment_name(name.file_name) == name
    assert parse_segment_name(name.stem + ".index") == name


def test_other_files_are_no_segments() -> None:
    stem = SegmentName(7).stem
    others = ["checkpoint", "cleaning.tmp", "next.prepared", stem, f"{stem}.journal.set-aside", "7.journal", ".journal"]
    others += [f"{stem}-{stem}.journal", f"{stem}-{stem}-1-x.journal", f"{stem}-{stem}-01-1.journal", "-.journal"]
    assert select_segments(others) == ([], [])


def test_a_cleaned_segment_stands_for_all_in_its_range() -> None:
    old = [SegmentName(0), SegmentName(100), SegmentName(200), SegmentName(300)]
    once = SegmentName(0, 100, 40, 1)
    twice = SegmentName(0, 300, 60, 2)
    files = [name.stem + suffix for name in (*old, once, twice) for suffix in (".journal", ".index")]
    kept, replaced = select_segments(files)
    assert kept == [twice, old[3]]
    assert sorted(replaced) == sorted(
        name.stem + suffix for name in (*old[:3], once) for suffix in (".journal", ".index")
    )


def test_an_index_without_its_segment_is_left_over() -> None:
    name = SegmentName(0, 100, 40, 1)
    kept, replaced = select_segments([SegmentName(0).file_name, name.stem + ".index", SegmentName(0).stem + ".index"])
    assert kept == [SegmentName(0)]
    assert replaced == [name.stem + ".index"]
