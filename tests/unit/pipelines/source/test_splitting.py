from hypothesis import given
from hypothesis import strategies as st
from tests.unit.pipelines.unhurried import unhurried

from hutong.pipelines.client.cluster import TopicPartition
from hutong.pipelines.source.splitting import OffsetRange, split

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
partitions = st.sampled_from([A0, A1, B0])


@unhurried
@given(
    st.lists(st.builds(OffsetRange, partitions, st.integers(0, 50), st.integers(51, 10**5)), max_size=4),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1000, 10**5),
)
def test_pieces_cover_the_ranges_and_nothing_else(
    ranges: list[OffsetRange], partitions_min: int | None, records_max: int | None
) -> None:
    pieces = split(ranges, partitions_min, records_max)
    rest = iter(pieces)
    for one in ranges:
        position = one.first
        while position < one.end:
            piece = next(rest)
            assert (piece.partition, piece.first) == (one.partition, position)
            assert 0 < piece.size <= (records_max or 10**9)
            position = piece.end
        assert position == one.end
    assert list(rest) == []


def test_large_ranges_are_cut_more_often() -> None:
    pieces = split([OffsetRange(A0, 0, 900), OffsetRange(B0, 0, 100)], 10, None)
    assert [piece.size for piece in pieces] == [100] * 10


def test_as_many_pieces_as_spark_makes() -> None:
    """A partition too small to be cut counts for one piece, and the large ones share the rest."""
    ranges = [OffsetRange(A0, 0, 10), OffsetRange(A1, 0, 12), OffsetRange(B0, 0, 978)]
    assert len(split(ranges, 12, None)) == 12
    assert [piece.size for piece in split([OffsetRange(A0, 0, 10)], None, 4)] == [3, 3, 4]
    assert len(split([OffsetRange(A0, 0, 10), OffsetRange(B0, 0, 4)], 9, 4)) == 10


def test_empty_ranges_are_dropped() -> None:
    assert split([OffsetRange(A0, 5, 5), OffsetRange(A1, 7, 6)], 4, 2) == []
