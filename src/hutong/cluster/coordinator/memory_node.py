"""The side of one node in a `MemoryEnsemble`: its messages in order, and the calls back on its loop.

Strategy: each message is put in a queue, and a timer takes the oldest, whichever message it was started for. So
messages have delays of their own and keep their order. News is read when it arrives, as after a watch of ZooKeeper's.
A call back waits in the queue of the loop, and is left out where the coordinator was closed meanwhile.

Knows nothing of other nodes. All methods that are not of the port are called with the ensemble's lock held.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.cluster.coordinator.port import (
    CoordinatorListener,
    CoordinatorRegister,
    NodeRegistration,
    SessionState,
)
from hutong.foundation.errors import CoordinatorUnavailable, HutongError, LimitExceeded, OwnerGone
from hutong.foundation.waiting.pending import Continuation, settle_future

if TYPE_CHECKING:
    from hutong.cluster.coordinator.memory import MemoryEnsemble

WAITING_MAX: Final = 64
"""Compare-and-sets of one node that wait for their answers."""


class MemoryCoordinator:
    """Made by `MemoryEnsemble.connect`, for one life of a process."""

    def __init__(self, ensemble: "MemoryEnsemble", node: int, post: Callable[[Callable[[], None]], object]) -> None:
        self._ensemble = ensemble
        self.node = node
        self._post = post
        self.is_gone = False  # its process is dead, or has closed it: it reaches nobody
        self._is_dead = False
        self.is_started = False
        self.is_connected = False
        self.expiry = 0  # rises with each reason why an expiry that is under way must not come
        self.proposed_cluster_id = ""
        self.may_join = True
        self._registration: NodeRegistration | None = None
        self._listener: CoordinatorListener | None = None
        self._started: Continuation[str] | None = None
        self._asked: deque[Callable[[], None]] = deque()
        self._told: deque[Callable[[], None]] = deque()
        self._connection = 0  # numbers connections: what was under way in another one is lost
        self._numbers = 0
        self._waiting: dict[int, Continuation[CoordinatorRegister]] = {}

    @property
    def session_ms(self) -> int:
        return self._ensemble.session_ms

    async def start(
        self, registration: NodeRegistration, cluster_id: str, listener: CoordinatorListener, *, may_join: bool = True
    ) -> str:
        assert registration.node == self.node
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        with self._ensemble.lock:
            self._registration, self.proposed_cluster_id, self._listener = registration, cluster_id, listener
            self.may_join = may_join
            self._started = partial(settle_future, future)
            self._ensemble.enter(self)
        return await future

    def describe(self, description: bytes) -> None:
        with self._ensemble.lock:
            self._registration = replace(self.registered(), description=description)
            self._ask(partial(self._ensemble.describe, self))

    def compare_and_set(self, version: int, value: bytes, then: Continuation[CoordinatorRegister]) -> None:
        with self._ensemble.lock:
            if not self.is_connected or not self.is_started:
                self._call_back(partial(then, CoordinatorUnavailable("the coordinator does not answer")))
                return
            if len(self._waiting) >= WAITING_MAX:
                self._call_back(partial(then, LimitExceeded("WAITING_MAX", WAITING_MAX)))
                return
            self._numbers += 1
            self._waiting[self._numbers] = then
            answer = partial(self._answer, self._numbers)
            self._ask(partial(self._ensemble.set_if, self, version, value, answer))

    async def close(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._ensemble.lock:
            self._listener = None
            self._fail_waiting(OwnerGone("the node is stopping"))
            if self._started is not None:
                self.refuse(OwnerGone("the node is stopping"))
            self._ensemble.later(partial(self._close, partial(settle_future, future)))
        await future

    def vanish(self) -> None:
        """Die as a process that was killed does: nothing is called back any more, and the session expires."""
        with self._ensemble.lock:
            self.is_gone = self._is_dead = True
            self._listener = self._started = None
            self._waiting.clear()
            self._ensemble.vanish(self)

    # -- for the ensemble

    def registered(self) -> NodeRegistration:
        assert self._registration is not None
        return self._registration

    @property
    def asked_count(self) -> int:
        return len(self._asked)

    def hear(self, message: Callable[[], None]) -> None:
        """Let a message arrive at this node, after those before it."""
        self._told.append(message)
        self._ensemble.later(partial(self._take, self._told, self._connection))

    def hear_members(self) -> None:
        def read() -> None:
            members = self._ensemble.members
            self._tell(lambda listener: listener.members_changed(members))

        self.hear(read)

    def hear_register(self) -> None:
        def read() -> None:
            register = self._ensemble.register
            self._tell(lambda listener: listener.register_changed(register))

        self.hear(read)

    def tell_session(self, state: SessionState) -> None:
        self._tell(lambda listener: listener.session_changed(state))

    def enter_session(self) -> None:
        """Note that there is a session (again), and say everything anew."""
        if self._started is not None:
            assert self._ensemble.cluster_id is not None
            self._call_back(partial(self._started, self._ensemble.cluster_id))
            self._started = None
            self.is_started = True
        self.tell_session(SessionState.CONNECTED)
        self.hear_members()
        self.hear_register()

    def refuse(self, error: HutongError) -> None:
        """End `start` without success."""
        if self._started is not None:
            self._call_back(partial(self._started, error))
        self._started = self._listener = None

    def lose_connection(self, arrived: int) -> None:
        """Let so many messages to the ensemble arrive still, and lose all others, in both directions."""
        for message in [self._asked.popleft() for _ in range(arrived)]:
            message()
        self._asked.clear()
        self._told.clear()
        self.is_connected = False
        self._connection += 1
        self._fail_waiting(CoordinatorUnavailable("the connection with the coordinator is lost"))
        if self.is_started:
            self.tell_session(SessionState.SUSPENDED)

    # -- inside

    def _ask(self, message: Callable[[], None]) -> None:
        self._asked.append(message)
        self._ensemble.later(partial(self._take, self._asked, self._connection))

    def _take(self, messages: deque[Callable[[], None]], connection: int) -> None:
        if connection == self._connection and messages and not self.is_gone:
            messages.popleft()()

    def _answer(self, number: int, outcome: CoordinatorRegister | HutongError) -> None:
        then = self._waiting.pop(number, None)
        if then is not None:
            self._call_back(partial(then, outcome))

    def _fail_waiting(self, error: HutongError) -> None:
        waiting, self._waiting = self._waiting, {}
        for then in waiting.values():
            self._call_back(partial(then, error))

    def _tell(self, call: Callable[[CoordinatorListener], None]) -> None:
        """Call the listener on its loop, unless the coordinator is closed by then."""

        def told() -> None:
            if self._listener is not None:
                call(self._listener)

        self._post(told)

    def _call_back(self, callback: Callable[[], None]) -> None:
        def called() -> None:
            if not self._is_dead:
                callback()

        self._post(called)

    def _close(self, then: Continuation[None]) -> None:
        self._ensemble.leave(self)
        self.is_gone = True
        self._post(partial(then, None))
