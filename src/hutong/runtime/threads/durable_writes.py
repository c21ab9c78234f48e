"""Durable writes: work for which the kernel needs no thread of ours, and threads where it cannot do it.

Strategy: a flush is mostly one write with its fdatasync. `RingOffload` gives such work to a ring of the kernel
(`write_ring`), made when it is first needed. What is more than one write goes to threads, as do all writes where the
kernel has no ring: containers often forbid io_uring. A write that failed or was short goes to a thread, too, which
writes all of it again; so errors of writes are understood in one place. A failed flush is never repeated.

Knows nothing of what is written.
"""

import asyncio
import errno
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from hutong.runtime.threads.offload import ClosableOffload

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
WRITE_INCOMPLETE: Final = -errno.ECANCELED  # the result where the write failed or was short, and so nothing was flushed


class DurableWrite(NamedTuple):
    """A write and its flush. The buffers must be writable memory, and stay as they are until the end."""

    descriptor: int
    buffers: list[memoryview]
    position: int


class DurableWork(Protocol[T_co]):
    """Work that a thread can do by calling it, and that may be no more than one durable write."""

    def __call__(self) -> T_co: ...

    def durable_write(self) -> DurableWrite | None:
        """The write that does all of it, or None."""
        ...

    def finish_write(self, error: int) -> T_co:
        """The result, or what it raises: the bytes are written, and flushed unless `error` is an errno."""
        ...


class Ring(Protocol):
    """The kernel's side (`write_ring.WriteRing`)."""

    def submit(self, write: DurableWrite, then: Callable[[int], None]) -> bool:
        """Begin the write. `then` gets 0, a negative errno of the flush, or WRITE_INCOMPLETE. False: not begun."""
        ...

    def close(self) -> None:
        """Wait for a write under way. Blocks."""
        ...


class RingOffload:
    """An offload whose durable writes go through a ring where that is possible, and all other work to threads."""

    def __init__(self, make_ring: Callable[[], Ring], threads: ClosableOffload) -> None:
        """`make_ring` raises OSError where there is none to have."""
        self._make_ring: Callable[[], Ring] | None = make_ring  # None once it was called
        self._ring: Ring | None = None
        self._threads = threads

    def submit(self, work: Callable[[], T], then: Callable[[T | BaseException], None]) -> None:
        """As `Offload.submit`. LimitExceeded may also come to `then`, of work that was not begun."""
        durable: Any = work if hasattr(work, "durable_write") else None
        write: DurableWrite | None = None if durable is None else durable.durable_write()
        if write is not None:
            ring = self._ring or self._first_ring()
            if ring is not None and ring.submit(write, lambda result: self._written(result, durable, then)):
                return
        self._threads.submit(work, then)

    def close(self) -> None:
        """Finish what was submitted. Blocks."""
        if self._ring is not None:
            self._ring.close()
        self._threads.close()

    def _first_ring(self) -> Ring | None:
        make_ring, self._make_ring = self._make_ring, None
        if make_ring is not None:
            try:
                self._ring = make_ring()
            except OSError:  # the kernel has none, or forbids it: that stays so
                return None
        return self._ring

    def _written(self, result: int, work: DurableWork[T], then: Callable[[T | BaseException], None]) -> None:
        outcome: T | BaseException
        try:
            if result == WRITE_INCOMPLETE:
                self._threads.submit(work, then)
                return
            outcome = work.finish_write(-result)
        except Exception as error:  # noqa: BLE001  # a supervisor: the submitter gets any error
            outcome = error
        then(outcome)


def ring_offload(loop: asyncio.AbstractEventLoop, threads: ClosableOffload) -> RingOffload:
    """Put a ring before the threads, where the kernel has one to give."""

    def make_ring() -> Ring:
        # Imported when it is needed: a tenth of a start would go into `ctypes`.
        from hutong.runtime.threads.write_ring import WriteRing

        return WriteRing(loop)

    return RingOffload(make_ring, threads)
