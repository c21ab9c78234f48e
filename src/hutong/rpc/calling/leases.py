"""Leases: objects that were passed to a service, or returned to a caller. Dropped proxies are reported to the owner.

Strategy: counted by weight, as distributed collectors do it. The caller counts how often it has passed an object; a
lease counts how often it was received, and returns that count when the last proxy of the object is garbage. When all
that was passed has come back, and no call that passes the object is under way, the caller releases it. So the order of
calls, answers and reports does not matter.

A report that is lost costs no more than the memory of an object until its connection ends or its idle time is over.

Knows no transport.
"""

import threading
from asyncio import AbstractEventLoop
from collections import deque
from functools import partial
from typing import Final
from weakref import WeakValueDictionary

from hutong.foundation.errors import HutongError
from hutong.rpc.call import RELEASE, Outcome
from hutong.rpc.calling.transport import Abandon, CallSite, OutgoingCall, Transport

REPORTS_MAX: Final = 16
"""Reports that wait for their answers at a time: a list of a thousand is dropped at once, and peers have bounds."""
REPORT_MS_MAX: Final = 30_000


class ReferenceLease:
    """One received object, shared by its proxies. `count` is how often it was received."""

    __slots__ = ("__weakref__", "_address", "_leases", "count")

    def __init__(self, leases: "ReferenceLeases", address: str) -> None:
        self.count = 0
        self._leases = leases
        self._address = address

    def __del__(self) -> None:
        self._leases.dropped(self._address, self.count)


class ReferenceLeases:
    """The leases of one transport. From any thread; reports leave on `loop`."""

    def __init__(self, transport: Transport, loop: AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._lock = threading.Lock()
        self._held: WeakValueDictionary[str, ReferenceLease] = WeakValueDictionary()
        self._dropped: deque[tuple[str, int]] = deque()
        self._reports: dict[int, Abandon] = {}
        self._number = 0
        self._is_closed = False

    def take(self, address: str) -> ReferenceLease:
        """The lease of an object that was received now."""
        with self._lock:
            lease = self._held.get(address)
            if lease is None:
                lease = self._held[address] = ReferenceLease(self, address)
            lease.count += 1
        return lease

    def dropped(self, address: str, count: int) -> None:
        """For leases: nothing here can call the object any more. Without the lock: garbage may be found under it."""
        if self._is_closed or self._loop.is_closed():
            return
        self._dropped.append((address, count))
        self._loop.call_soon_threadsafe(self._report)

    def close(self) -> None:
        """Report nothing any more. On the loop."""
        self._is_closed = True
        for abandon in self._reports.values():
            abandon()
        self._reports.clear()

    def _report(self) -> None:
        while self._dropped and len(self._reports) < REPORTS_MAX and not self._is_closed:
            address, count = self._dropped.popleft()
            self._number += 1
            call = OutgoingCall(CallSite(address, RELEASE), {"count": count})
            try:
                abandon = self._transport.begin_call(call, REPORT_MS_MAX, partial(self._reported, self._number))
            except HutongError:  # a bus that is closed, with all that was passed over it
                continue
            self._reports[self._number] = abandon

    def _reported(self, number: int, _: Outcome | HutongError) -> None:
        # Any answer will do: an object that is not there any more needs no report.
        self._reports.pop(number, None)
        self._report()
