"""The queues of requests that wait for data, for the disk, or for a thread.

Strategy: each kind of work has threads of its own. Decompressed batches are bounded by the number of examiner threads,
so disk work may not use those threads, nor they the disk's.
"""

from typing import Final

from hutong.broker.dispatch.long_requests import LONG_BYTES_MAX, FinishedRequest, LongRequests
from hutong.broker.fetch.disk_reads import DiskReads
from hutong.broker.fetch.session_table import FetchSessions
from hutong.broker.produce.examinations import WORKERS as EXAMINERS
from hutong.broker.produce.examinations import Examinations, Outcome
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.table import WaitTable
from hutong.runtime.threads.precedence import Precedence
from hutong.scheduler.driver import FairExecutor
from hutong.scheduler.machine import Scheduler
from hutong.server.broker.environment import BrokerEnvironment
from hutong.server.configuration import translate

HELD_MAX: Final = 1_000_000  # one for each connection; the reactor bounds the connections
_FETCHES_MAX: Final = 100_000
_DISK_READS_MAX: Final = 100_000


class RequestQueues:
    """Made before anything is read from the disk. `device` reports a contended disk."""

    def __init__(self, environment: BrokerEnvironment, device: Precedence) -> None:
        settings, clock, loop, wheel = environment.settings, environment.clock, environment.loop, environment.wheel
        make_offload = environment.ports.make_offload
        examiner_threads = make_offload(loop, EXAMINERS, "hutong-examiner")
        codec_thread = make_offload(loop, 1, "hutong-codec")
        self._offloads = (examiner_threads, codec_thread)
        self.fetches: WaitTable[None] = WaitTable("fetches", wheel, _FETCHES_MAX)
        reads: WaitTable[list[memoryview]] = WaitTable("cold_reads", wheel, _DISK_READS_MAX)

        # A queue for each journal: a disk that stalls under one must not hold up reads of another.
        def queue_of_journal() -> FairExecutor:
            return FairExecutor(translate.disk_read_scheduler(settings), reads, clock, loop.call_soon)

        self.disk_reads = DiskReads(queue_of_journal, clock, lambda: device.is_contended)
        examined: WaitTable[list[Outcome | None]] = WaitTable("examined_produces", wheel, HELD_MAX)
        examining = FairExecutor(Scheduler(), examined, clock, loop.call_soon)
        unpacked_bytes_max = settings.log.unpacked_batch_bytes_max
        self.examinations = Examinations(examining, examiner_threads, clock, unpacked_bytes_max)
        long_requests: WaitTable[FinishedRequest] = WaitTable("long_requests", wheel, HELD_MAX)
        dividing = FairExecutor(Scheduler(cost_max=LONG_BYTES_MAX), long_requests, clock, loop.call_soon)
        self.long_requests = LongRequests(dividing, codec_thread, clock)
        self.held_producers: WaitTable[None] = WaitTable("held_producers", wheel, HELD_MAX)
        self.throttled: WaitTable[None] = WaitTable("throttled", wheel, HELD_MAX)
        self.fetch_sessions = FetchSessions(settings.fetch.session_slots, environment.ports.random_bytes)
        sources = environment.sources
        for table in (self.fetches, reads, examined, long_requests, self.held_producers, self.throttled):
            sources.waits[table.name] = table
        sources.disk_reads = self.disk_reads
        sources.executors = {
            "disk_reads": lambda: self.disk_reads.executors,
            "examinations": lambda: (examining,),
            "long_requests": lambda: (dividing,),
        }
        sources.fetch_sessions = self.fetch_sessions

    def end_waits(self, error: HutongError) -> None:
        """Answer fetches without data, and end all other waits with `error`."""
        self.fetches.close(error)
        self.disk_reads.close(error)
        self.examinations.close(error)
        self.long_requests.close(error)

    def close(self) -> None:
        """End the threads."""
        for offload in self._offloads:
            offload.close()
