"""The life of one coordinator, or of several that share a log: `load` makes them serve, `unload` ends that.

Strategy: a node alone loads them once. Among several nodes they live on the leader of their log: a new leader makes new
ones from the log, an old one closes its own and forgets them. Before and after there are closed ones, which refuse
everything, so that there are always some to ask.

Knows nothing of what they coordinate.
"""

import logging
from abc import ABC, abstractmethod
from asyncio import Task
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from hutong.broker.state.state_topic import StateTopic
from hutong.foundation.errors import CorruptData, HutongError, OwnerGone
from hutong.foundation.waiting.pending import Continuation
from hutong.journal.log import PartitionLog
from hutong.server.broker.environment import BrokerEnvironment
from hutong.wire.kafka.error_codes import ErrorCode

EPOCH_ALONE: Final = 0
_loads: Final[set[Task[None]]] = set()  # under way: a loop refers to its tasks weakly
_log = logging.getLogger("hutong.node")
PartsT = TypeVar("PartsT")
Apply = Callable[[bytes, bytes | None], None]


class NoState:
    """The state of coordinators that do not serve: it takes nothing."""

    def append_all(self, _records: object, then: Continuation[None]) -> None:
        then(OwnerGone("this node does not coordinate"))


class CoordinatorLife(ABC, Generic[PartsT]):
    """`parts` are the coordinators of this moment. `code` is NONE while they serve."""

    def __init__(self, environment: BrokerEnvironment, topic: str, what: str) -> None:
        """`topic` is the internal topic of their log, and `what` names them for people."""
        self.on_swap: list[Callable[[PartsT], None]] = []  # called with the new ones
        self._environment = environment
        self._topic = topic
        self._what = what
        self._state: StateTopic | None = None  # of those that serve, or that are being loaded
        self._set_code(ErrorCode.NOT_COORDINATOR)
        self.parts = self._closed()

    async def load(self, log: PartitionLog, epoch: int = EPOCH_ALONE) -> None:
        """Replay the log, and serve. `epoch` is its leader epoch. Nothing happens where `unload` comes first.

        Raises CorruptData, StorageError.
        """
        await self._replayed(*self._prepared(log, epoch))

    def load_soon(self, log: PartitionLog, epoch: int, failed: Callable[[], None]) -> None:
        """`load` while other work goes on, for a node that leads the log from now on.

        A failure is logged. `failed` is called where another attempt may do better: the disk had no answer.
        """

        def ended(task: Task[None]) -> None:
            _loads.discard(task)
            error = None if task.cancelled() else task.exception()
            if isinstance(error, HutongError):
                _log.critical("this node leads the log of %s and cannot load them: %s", self._what, error)
                if not isinstance(error, CorruptData):
                    failed()
            # Anything else is our own fault, and passes to the loop's handler.
            elif error is not None:
                raise error

        # Prepared at once: this node may lead no more before the task begins.
        task = self._environment.loop.create_task(self._replayed(*self._prepared(log, epoch)))
        _loads.add(task)
        task.add_done_callback(ended)

    def _prepared(self, log: PartitionLog, epoch: int) -> tuple[StateTopic, PartsT]:
        self.unload()
        self._set_code(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self._state = state = self._environment.state_topic(self._topic, log)
        return state, self._make(state, epoch)

    async def _replayed(self, state: StateTopic, parts: PartsT) -> None:
        try:
            await state.replay(self._replay_of(parts))
        except HutongError:
            # Its journal may be closed by now.
            if self._state is state:
                self.unload()
                raise
        if self._state is not state:
            return
        state.on_late = self._late_of(parts)
        self._swap(parts)
        self._set_code(ErrorCode.NONE)
        self._begin(parts)

    def unload(self) -> None:
        """Serve no more: everything that waits is answered, and what is on its way to the log is given up."""
        state, self._state = self._state, None
        if state is None:
            return
        was_serving = self.code is ErrorCode.NONE
        self._set_code(ErrorCode.NOT_COORDINATOR)
        if was_serving:
            before = self.parts
            # First the new ones: an answer of the old ones may lead to a question to the coordinator.
            self._swap(self._closed())
            self._end(before)
        state.close(OwnerGone(f"this node coordinates {self._what} no more"))

    def _swap(self, parts: PartsT) -> None:
        self.parts = parts
        for swapped in self.on_swap:
            swapped(parts)

    def _set_code(self, code: ErrorCode) -> None:
        self.code = code

    @abstractmethod
    def _make(self, state: StateTopic, epoch: int) -> PartsT:
        """Coordinators that keep what they decide in `state`."""

    @abstractmethod
    def _closed(self) -> PartsT:
        """Coordinators that refuse everything."""

    @abstractmethod
    def _replay_of(self, parts: PartsT) -> Apply:
        """The function that takes each record of the log, from its beginning on."""

    @abstractmethod
    def _late_of(self, parts: PartsT) -> Apply:
        """The function that takes records that are durable after their append had failed."""

    @abstractmethod
    def _begin(self, parts: PartsT) -> None:
        """Let them serve from now on."""

    @abstractmethod
    def _end(self, parts: PartsT) -> None:
        """Answer everything that waits at them."""
