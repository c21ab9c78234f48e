"""Epoch regions: the stream reads back as written, memory is re-used, and never under a reader."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import LimitExceeded
from hutong.foundation.regions import JOIN_BELOW_BYTES, REGION_BYTES_MAX, RegionCache

PAGE = 4096


def joined(views: list[memoryview] | None) -> bytes | None:
    return None if views is None else b"".join(views)


def append(cache: RegionCache, data: bytes) -> int:
    return cache.append([data], len(data))


def test_a_chunk_never_spans_two_regions() -> None:
    cache = RegionCache(region_bytes=PAGE, cached_bytes_max=10 * PAGE)
    assert append(cache, b"a" * 3000) == 0
    assert append(cache, b"b" * 3000) == 3000
    assert cache.regions_live == 2
    views = cache.view(2990, 3010)
    assert views is not None
    assert [bytes(view) for view in views] == [b"a" * 10, b"b" * 10]
    assert joined(cache.view(0, 6000)) == b"a" * 3000 + b"b" * 3000


def test_a_chunk_above_the_region_size_gets_its_own_region() -> None:
    cache = RegionCache(region_bytes=PAGE, cached_bytes_max=PAGE)
    append(cache, b"a")
    append(cache, b"b" * 3 * PAGE)
    append(cache, b"c")
    assert cache.regions_live == 3
    assert joined(cache.view(0, 2 + 3 * PAGE)) == b"a" + b"b" * 3 * PAGE + b"c"


@pytest.mark.parametrize("size", [1, JOIN_BELOW_BYTES, 2 * JOIN_BELOW_BYTES])
def test_buffers_of_any_kind_and_size_are_copied_in_order(size: int) -> None:
    cache = RegionCache()
    first, second, third = b"a" * size, bytearray(b"b" * size), memoryview(b"xc" * size)[1 : 1 + size]
    assert cache.append([first, second, third], 3 * size) == 0
    second[:] = b"z" * size
    assert joined(cache.view(0, 3 * size)) == first + b"b" * size + bytes(third)


@pytest.mark.parametrize("size", [1, 2 * JOIN_BELOW_BYTES])
def test_a_wrong_total_is_our_fault_and_leaves_the_stream_as_it_was(size: int) -> None:
    cache = RegionCache()
    append(cache, b"before")
    for wrong in (size - 1, size + 1):
        with pytest.raises((ValueError, IndexError)):
            cache.append([b"x" * size], wrong)
    assert append(cache, b" after") == 6
    assert joined(cache.view(0, 12)) == b"before after"


def test_only_what_is_flushed_and_outside_the_hot_window_is_dropped() -> None:
    cache = RegionCache(region_bytes=PAGE, cached_bytes_max=2 * PAGE)
    for _ in range(5):
        append(cache, bytes(PAGE))
    assert cache.oldest_position == 0
    assert cache.bytes_unflushed == 5 * PAGE
    cache.flushed(PAGE)
    assert cache.oldest_position == PAGE
    cache.flushed(5 * PAGE)
    assert cache.oldest_position == 2 * PAGE
    assert cache.cached_bytes == 3 * PAGE, "the window, and the region to be filled next"
    assert cache.view(2 * PAGE - 1, 3 * PAGE) is None
    assert cache.view(4 * PAGE, 5 * PAGE + 1) is None
    assert cache.view(5 * PAGE, 5 * PAGE) == []


def test_what_falls_out_of_the_window_is_filled_again() -> None:
    cache = RegionCache(region_bytes=PAGE, cached_bytes_max=2 * PAGE)
    for _ in range(100):
        append(cache, bytes(PAGE))
        cache.flushed(cache.end_position)
    assert cache.regions_mapped == 3  # the hot window and the region being filled
    assert cache.regions_reused == 97
    assert cache.escapes_total == 0


def test_flushes_of_several_regions_need_no_fresh_memory() -> None:
    cache = RegionCache(region_bytes=PAGE, cached_bytes_max=8 * PAGE)
    for number in range(100):
        append(cache, bytes(PAGE))
        if number % 4 == 0:
            cache.flushed(cache.end_position)
    assert cache.regions_mapped == 9


def test_a_region_with_a_reader_escapes_and_is_not_written_again() -> None:
    cache = RegionCache(region_bytes=PAGE, cached_bytes_max=0, escaped_bytes_max=2 * PAGE)
    append(cache, b"kept" + bytes(PAGE - 4))
    cache.flushed(cache.end_position)
    views = cache.view(0, 4)
    assert views is not None
    for _ in range(10):
        append(cache, b"\xff" * PAGE)
        cache.flushed(cache.end_position)
    assert bytes(views[0]) == b"kept"
    assert (cache.escapes_total, cache.regions_escaped, cache.escaped_bytes) == (1, 1, PAGE)
    del views
    assert (cache.escapes_total, cache.regions_escaped, cache.escaped_bytes) == (1, 0, 0)


def test_readers_get_copies_once_too_much_has_escaped() -> None:
    cache = RegionCache(region_bytes=PAGE, cached_bytes_max=0, escaped_bytes_max=2 * PAGE)
    held = []
    for number in range(10):
        position = append(cache, bytes([number]) * PAGE)
        held.append(cache.view(position, position + 1))
        cache.flushed(cache.end_position)
    assert [joined(views) for views in held] == [bytes([number]) for number in range(10)]
    assert cache.escaped_bytes <= 3 * PAGE  # the bound, and the region that was live when it was reached
    copied = cache.copied_views_total
    assert copied > 0
    position = append(cache, b"not flushed")
    assert joined(cache.view(position, cache.end_position, is_flush=True)) == b"not flushed"
    assert cache.copied_views_total == copied, "a flush of megabytes would hold the loop"
    held.clear()
    assert cache.escaped_bytes == 0


def test_a_burst_leaves_no_memory_behind() -> None:
    cache = RegionCache(region_bytes=PAGE, cached_bytes_max=2 * PAGE)
    for _ in range(10):
        append(cache, bytes(PAGE))
    assert cache.regions_live == 10, "nothing is flushed"
    cache.flushed(cache.end_position)
    assert cache.regions_live == 3
    for _ in range(10):
        append(cache, bytes(PAGE))
        cache.flushed(cache.end_position)
    assert (cache.regions_live, cache.regions_mapped) == (3, 10)


def test_the_memory_of_a_large_append_is_not_kept_for_ordinary_ones() -> None:
    cache = RegionCache(region_bytes=PAGE, cached_bytes_max=PAGE)
    append(cache, bytes(4 * PAGE))
    cache.flushed(cache.end_position)
    append(cache, bytes(PAGE))
    append(cache, bytes(4 * PAGE))
    cache.flushed(cache.end_position)
    append(cache, bytes(PAGE))
    assert (cache.regions_mapped, cache.regions_reused) == (4, 0)


def test_close_drops_all_but_what_is_held() -> None:
    cache = RegionCache(region_bytes=PAGE)
    append(cache, b"held")
    views = cache.view(0, 4)
    cache.close()
    assert joined(views) == b"held"
    assert cache.regions_live == 0
    assert cache.view(0, 4) is None


def test_bounds_are_named() -> None:
    with pytest.raises(ValueError, match="a region has"):
        RegionCache(region_bytes=0)
    with pytest.raises(LimitExceeded, match="region_bytes_max"):
        RegionCache().append([b""], REGION_BYTES_MAX + 1)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.binary(max_size=60), max_size=4)),
        st.tuples(st.just("flush"), st.integers(0, 100)),
        st.tuples(st.just("read"), st.integers(0, 100)),
        st.tuples(st.just("release"), st.integers(0, 100)),
    ),
    max_size=60,
)


@given(steps, st.integers(1, 100), st.integers(0, 200), st.integers(0, 1000))
def test_views_always_show_the_stream(
    script: list[tuple[str, list[bytes] | int]], region_bytes: int, cached_bytes_max: int, start: int
) -> None:
    cache = RegionCache(region_bytes, cached_bytes_max, start_position=start)
    stream = b""
    held: list[tuple[int, int, list[memoryview]]] = []
    for kind, value in script:
        if isinstance(value, list):
            data = b"".join(value)
            assert cache.append(value, len(data)) == start + len(stream)
            stream += data
        elif kind == "flush":
            cache.flushed(start + len(stream) * value // 100)
        elif kind == "read":
            position = cache.oldest_position + cache.cached_bytes * value // 100
            views = cache.view(position, cache.end_position)
            assert views is not None
            held.append((position, cache.end_position, views))
        elif held:
            held.pop(value % len(held))
        assert cache.oldest_position <= max(cache.flushed_position, start)
        for first, last, views in held:
            assert joined(views) == stream[first - start : last - start]
