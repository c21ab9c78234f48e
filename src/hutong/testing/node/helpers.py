"""The helpers of a node or of a cluster for tests: topics, records and groups, and the waits for them.

Strategy: each runs a question of an `Observer` on the loop of what it is about, while the calling thread waits. A
blocked event loop could not run the very client whose records a helper waits for, so those that wait refuse to run
there, and `aio` has the same to be awaited.

Knows nothing of lives and faults.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import Refused
from hutong.testing.faults.switches import Fault
from hutong.testing.node.loop_thread import LoopThread
from hutong.testing.observe.observer import Observer, wait_for_hits
from hutong.testing.values import Group, Headers, Record, Standing, Text, Topic, WaitFailed

T = TypeVar("T")
TIMEOUT_S: Final = 5.0


class Helpers:
    """`thread` is where the observer is used; the subclass opens it."""

    _thread: LoopThread | None = None
    _what = "node"

    @property
    def observer(self) -> Observer:
        """The observer of what runs. Raises RuntimeError while nothing runs."""
        raise NotImplementedError

    # -- topics and records

    def create_topic(self, name: str, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Raises ValueError for an illegal name or number, Refused where the node refuses (it is there already)."""
        topic = Topic(name, partitions, config or {})
        self.run(self.observer.create(topic))

    def delete_topic(self, name: str) -> None:
        """A topic that is not there is fine."""
        self.run(self.observer.delete(name))

    def topics(self) -> dict[str, int]:
        """Names of the topics that are there, with their numbers of partitions."""
        return self.run(self.observer.topics())

    def produce(
        self,
        topic: str,
        *values: Text,
        key: Text = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> list[Record]:
        """Append one record for each value, durable on return; text is sent as UTF-8, None is a tombstone.

        Without a partition the key chooses, as in librdkafka; without a key it is the first. Raises Refused.
        """
        return self.run(
            self.observer.produce(
                topic, values, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
            )
        )

    def records(
        self, topic: str, count: int | None = None, *, partition: int | None = None, timeout: float = TIMEOUT_S
    ) -> list[Record]:
        """All records of the topic, partition by partition; with a count, once there are at least that many.

        Raises WaitFailed, which lists what is there, when they do not come in time.
        """
        __tracebackhide__ = True
        return self._wait(self.observer.records(topic, count, partition, to_ms(timeout)), "records")

    # -- groups

    def groups(self) -> list[str]:
        """Names of the consumer groups that are known."""
        return self.run(self.observer.groups())

    def group(self, name: str) -> Group:
        """Its state and members just now."""
        return self.run(self.observer.group(name))

    def standings(self, group: str, topic: str) -> list[Standing]:
        """The group's position in each partition of the topic just now."""
        return self.run(self.observer.standings(group, topic))

    def wait_for_group(
        self, name: str, members: int | None = None, state: str = "Stable", *, timeout: float = TIMEOUT_S
    ) -> Group:
        """Return the group once it is in that state, with that number of members if given. Raises WaitFailed."""
        __tracebackhide__ = True
        return self._wait(self.observer.wait_for_group(name, members, state, to_ms(timeout)), "wait_for_group")

    def wait_for_lag(self, group: str, topic: str, lag: int = 0, *, timeout: float = TIMEOUT_S) -> list[Standing]:
        """Return once the group has committed all but `lag` records of the topic, or fewer. Raises WaitFailed."""
        __tracebackhide__ = True
        return self._wait(self.observer.wait_for_lag(group, topic, lag, to_ms(timeout)), "wait_for_lag")

    def wait_for_fault(self, fault: Fault, hits: int = 1, *, timeout: float = TIMEOUT_S) -> None:
        """Return once somebody has met the fault, so often. Raises WaitFailed."""
        __tracebackhide__ = True
        return self._wait(wait_for_hits(lambda: fault.hits, hits, to_ms(timeout), SystemClock()), "wait_for_fault")

    # -- how

    @property
    def thread(self) -> LoopThread:
        """The thread on which it runs. Raises RuntimeError while it is not open."""
        if self._thread is None:
            raise RuntimeError(f"the {self._what} is not open: use it in a `with` block, or call start()")
        return self._thread

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine on its loop; return or raise its outcome, with the caller's traceback alone."""
        __tracebackhide__ = True  # pytest leaves out this frame, so that a failure points at the test
        # Closed, or Python would warn of a coroutine that was never awaited, which fails strict tests.
        if self._thread is None:
            work.close()
        try:
            return self.thread.run(work)
        except (WaitFailed, Refused) as error:
            # The frames of the node's thread say nothing to the test's author: the report shows the line of the test.
            raise error.with_traceback(None) from None

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        if self._thread is None:
            work.close()
        return self.thread.submit(work)

    def _wait(self, work: Coroutine[Any, Any, T], helper: str) -> T:
        __tracebackhide__ = True
        if not _is_on_a_loop():
            return self.run(work)
        work.close()
        raise RuntimeError(
            f"{helper}() would stop the event loop of this thread, and with it what it waits for: "
            f"write `await {self._what}.aio.{helper}(...)`"
        )


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def to_ms(timeout: float) -> int:
    """Seconds as milliseconds. Raises ValueError for less than none."""
    if timeout < 0:
        raise ValueError(f"timeout is a number of seconds from 0, not {timeout}")
    return int(timeout * 1000)
