"""The queues of all steps and the recalls, while this node leads them.

Decides nothing. All calls come on the loop.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hutong.broker.delays.delayed_appends import DelayedAppends
from hutong.broker.delays.recall_log import RecallLog
from hutong.broker.delays.recalls import Recalls
from hutong.broker.delays.step_queue import StepQueue
from hutong.broker.delays.steps import RECALLS_QUEUE, STEPS_S
from hutong.broker.topics.partition import Topic
from hutong.foundation.timers import TimerWheel

if TYPE_CHECKING:
    from hutong.broker.broker import Broker


class LedSteps:
    """Call `start` once, then `close` once. `topics` is that of the queues, alone."""

    def __init__(
        self,
        broker: "Broker",
        timers: TimerWheel,
        appends: DelayedAppends,
        recalls: Recalls,
        topics: Sequence[Topic],
    ) -> None:
        self._clock = broker.clock
        self._appends = appends
        self._recalls = recalls
        (topic,) = topics
        self.recall_log = RecallLog(topic.partitions[RECALLS_QUEUE], recalls, self._passed_ms, broker, timers)
        self._queues = [
            StepQueue(partition, step_s * 1_000, appends, broker.clock, timers)
            for partition, step_s in zip(topic.partitions[RECALLS_QUEUE + 1 :], STEPS_S, strict=True)
        ]

    def start(self) -> None:
        """Bring out what earlier leaders have left."""
        for queue in self._queues:
            self._appends.add(queue)
        # Not before: what was recalled must not come out.
        self.recall_log.load(self._run)

    def close(self) -> None:
        """Bring nothing more out."""
        self.recall_log.close()
        for queue in self._queues:
            self._appends.remove(queue)
        self._recalls.clear()

    def _run(self) -> None:
        for queue in self._queues:
            queue.run()

    def _passed_ms(self) -> int:
        """The time before which all that was due has come, 0 where that is not known."""
        if not all(queue.is_caught_up for queue in self._queues):
            return 0
        # A record that is settled comes out again after a kill, as long as one before it is not: its recall must last.
        times_ms = [self._appends.oldest_due_ms, *(queue.progress.oldest_again_ms for queue in self._queues)]
        return min([self._clock.wall_ms(), *(time_ms for time_ms in times_ms if time_ms is not None)])
