"""Durable writes: through the kernel's ring where it takes them, by threads where it does not."""

import asyncio
import errno
import mmap
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hutong.foundation.errors import FlushFailed
from hutong.runtime.threads.durable_writes import WRITE_INCOMPLETE, DurableWrite, Ring, RingOffload, ring_offload
from hutong.runtime.threads.offload import ThreadOffload, run
from hutong.runtime.threads.write_ring import BUFFERS_MAX, WriteRing


@contextmanager
def ring_of_kernel() -> Iterator[WriteRing]:
    try:
        ring = WriteRing(asyncio.get_running_loop())
    except OSError as error:
        pytest.skip(f"no io_uring here: {error}")
    try:
        yield ring
    finally:
        ring.close()


@contextmanager
def file_at(path: Path | str, flags: int = os.O_RDWR | os.O_CREAT) -> Iterator[int]:
    descriptor = os.open(path, flags, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def view(content: bytes) -> memoryview:
    return memoryview(bytearray(content))


def never(result: int) -> None:
    pytest.fail(f"not begun, but ended with {result}")


async def written(ring: WriteRing, write: DurableWrite) -> int:
    done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    assert ring.submit(write, done.set_result)
    return await asyncio.wait_for(done, 10)


async def test_writes_arrive_in_one_file_wherever_their_buffers_are(tmp_path: Path) -> None:
    region = mmap.mmap(-1, 4096)
    region[:4] = b"cdef"
    with ring_of_kernel() as ring, file_at(tmp_path / "file") as descriptor:
        assert await written(ring, DurableWrite(descriptor, [view(b"ab"), memoryview(region)[:4]], 0)) == 0
        for number in range(20):  # more than the ring has entries, so that its counters come around
            assert await written(ring, DurableWrite(descriptor, [view(b"%02d" % number)], 6 + 2 * number)) == 0
        assert (tmp_path / "file").read_bytes() == b"abcdef" + b"".join(b"%02d" % number for number in range(20))


async def test_as_many_buffers_as_a_write_may_have_and_no_more(tmp_path: Path) -> None:
    with ring_of_kernel() as ring, file_at(tmp_path / "file") as descriptor:
        assert not ring.submit(DurableWrite(descriptor, [view(b"x")] * (BUFFERS_MAX + 1), 0), never)
        assert await written(ring, DurableWrite(descriptor, [view(b"y")] * BUFFERS_MAX, 0)) == 0
        assert (tmp_path / "file").read_bytes() == b"y" * BUFFERS_MAX


async def test_one_write_at_a_time(tmp_path: Path) -> None:
    with ring_of_kernel() as ring, file_at(tmp_path / "file") as descriptor:
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        assert ring.submit(DurableWrite(descriptor, [view(b"first")], 0), done.set_result)
        assert not ring.submit(DurableWrite(descriptor, [view(b"second")], 0), never)
        assert await asyncio.wait_for(done, 10) == 0
        assert (tmp_path / "file").read_bytes() == b"first"


async def test_the_next_write_may_begin_where_one_ends(tmp_path: Path) -> None:
    with ring_of_kernel() as ring, file_at(tmp_path / "file") as descriptor:
        ended = asyncio.Event()

        def then(result: int) -> None:
            assert result == 0
            assert ring.submit(DurableWrite(descriptor, [view(b"second")], 5), lambda _: ended.set())

        assert ring.submit(DurableWrite(descriptor, [view(b"first")], 0), then)
        await asyncio.wait_for(ended.wait(), 10)
        assert (tmp_path / "file").read_bytes() == b"firstsecond"


async def test_memory_that_cannot_be_lent_is_not_taken(tmp_path: Path) -> None:
    with ring_of_kernel() as ring, file_at(tmp_path / "file") as descriptor:
        assert not ring.submit(DurableWrite(descriptor, [memoryview(b"constant")], 0), never)
        assert not ring.is_busy


@pytest.mark.parametrize("path", ["read-only", "/dev/full"])
async def test_a_failed_write_is_incomplete_and_the_next_one_is_not_mistaken_for_it(tmp_path: Path, path: str) -> None:
    (tmp_path / "read-only").touch()
    flags = os.O_WRONLY if path == "/dev/full" else os.O_RDONLY
    with (
        ring_of_kernel() as ring,
        file_at(tmp_path / path, flags) as refusing,
        file_at(tmp_path / "good") as descriptor,
    ):
        for _ in range(5):
            assert await written(ring, DurableWrite(refusing, [view(b"x")], 0)) == WRITE_INCOMPLETE
            assert await written(ring, DurableWrite(descriptor, [view(b"x")], 0)) == 0


async def test_a_short_write_is_incomplete(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with ring_of_kernel() as ring, file_at(tmp_path / "file") as descriptor:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))  # Python ignores the signal that would come
        try:
            assert await written(ring, DurableWrite(descriptor, [view(bytes(6000))], 0)) == WRITE_INCOMPLETE
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert os.fstat(descriptor).st_size == 4096


async def test_a_failed_flush_has_its_number() -> None:
    with ring_of_kernel() as ring, file_at("/dev/null", os.O_WRONLY) as descriptor:  # takes bytes, and has no disk
        assert await written(ring, DurableWrite(descriptor, [view(b"x")], 0)) == -errno.EINVAL


async def test_a_write_of_which_the_kernel_takes_half_is_a_failed_flush(tmp_path: Path) -> None:
    """Nobody knows when the kernel carries out that half, so a thread must not write behind it."""
    with ring_of_kernel() as ring, file_at(tmp_path / "file") as descriptor:
        ring._call = lambda *_: 1  # type: ignore[assignment]
        assert await written(ring, DurableWrite(descriptor, [view(b"x")], 0)) == -errno.EIO
        assert not ring.is_busy
        assert not ring.submit(DurableWrite(descriptor, [view(b"y")], 0), never)


async def test_closing_waits_for_the_write_and_gives_all_back(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    results: list[int] = []
    with file_at(tmp_path / "file") as descriptor:
        with ring_of_kernel() as ring:
            assert ring.submit(DurableWrite(descriptor, [view(b"last")], 0), results.append)
        assert results == [0]
    assert (tmp_path / "file").read_bytes() == b"last"
    assert len(os.listdir("/proc/self/fd")) == before


class FakeRing:
    """Takes writes, and ends them when the test says with what."""

    def __init__(self) -> None:
        self.takes = True
        self.is_closed = False
        self.begun: list[tuple[DurableWrite, Callable[[int], None]]] = []

    def submit(self, write: DurableWrite, then: Callable[[int], None]) -> bool:
        if self.takes:
            self.begun.append((write, then))
        return self.takes

    def close(self) -> None:
        self.is_closed = True


class Work:
    """Work that is one durable write, unless `write` is None."""

    def __init__(self, write: DurableWrite | None = DurableWrite(-1, [], 0)) -> None:  # noqa: B008
        self.write = write
        self.errors: list[int] = []

    def __call__(self) -> str:
        return "by a thread"

    def durable_write(self) -> DurableWrite | None:
        return self.write

    def finish_write(self, error: int) -> str:
        self.errors.append(error)
        if error:
            raise FlushFailed(os.strerror(error))
        return "by the ring"


@contextmanager
def offload_with(ring: Ring) -> Iterator[RingOffload]:
    threads = ThreadOffload(asyncio.get_running_loop(), 1, "test")
    offload = RingOffload(lambda: ring, threads)
    try:
        yield offload
    finally:
        offload.close()


async def test_a_durable_write_goes_through_the_ring_and_ends_with_its_result() -> None:
    ring, outcomes = FakeRing(), list[Any]()
    with offload_with(ring) as offload:
        offload.submit(Work(), outcomes.append)
        assert outcomes == []
        ring.begun[0][1](0)
        offload.submit(Work(), outcomes.append)
        ring.begun[1][1](-errno.EIO)
    assert outcomes[0] == "by the ring"
    assert isinstance(outcomes[1], FlushFailed), "a failed flush is not tried by a thread"
    assert ring.is_closed


async def test_an_incomplete_write_is_done_again_by_a_thread() -> None:
    ring, work = FakeRing(), Work()
    with offload_with(ring) as offload:
        outcome: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        offload.submit(work, outcome.set_result)
        ring.begun[0][1](WRITE_INCOMPLETE)
        assert await outcome == "by a thread"
        assert work.errors == []


async def test_all_other_work_goes_to_threads() -> None:
    ring = FakeRing()
    with offload_with(ring) as offload:
        assert await run(offload, Work(write=None)) == "by a thread"
        assert await run(offload, lambda: 7) == 7
        ring.takes = False
        assert await run(offload, Work()) == "by a thread"
    assert not ring.begun


async def test_without_a_ring_threads_do_all_and_the_kernel_is_asked_once() -> None:
    asked: list[None] = []

    def forbidden() -> Ring:
        asked.append(None)
        raise PermissionError(errno.EPERM, "a container forbids it")

    offload = RingOffload(forbidden, ThreadOffload(asyncio.get_running_loop(), 1, "test"))
    assert [await run(offload, Work()) for _ in range(3)] == ["by a thread"] * 3
    assert len(asked) == 1
    offload.close()


async def test_an_incomplete_write_that_no_thread_takes_ends_with_the_reason() -> None:
    ring, outcomes = FakeRing(), list[Any]()
    threads = ThreadOffload(asyncio.get_running_loop(), 1, "test")
    offload = RingOffload(lambda: ring, threads)
    offload.submit(Work(), outcomes.append)
    threads.close()
    ring.begun[0][1](WRITE_INCOMPLETE)
    assert isinstance(outcomes[0], RuntimeError)


async def test_the_ring_is_made_for_the_first_write(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    offload = ring_offload(asyncio.get_running_loop(), ThreadOffload(asyncio.get_running_loop(), 1, "test"))
    assert await run(offload, lambda: 7) == 7
    assert len(os.listdir("/proc/self/fd")) == before
    with file_at(tmp_path / "file") as descriptor:
        await run(offload, Work(DurableWrite(descriptor, [view(b"bytes")], 0)))
        assert (tmp_path / "file").exists()
    offload.close()
    assert len(os.listdir("/proc/self/fd")) == before
