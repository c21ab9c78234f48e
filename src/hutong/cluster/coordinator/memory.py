"""A coordinator in memory, for nodes of one process: tests, and the simulator, where time is virtual.

Strategy: it behaves as a ZooKeeper ensemble does. Messages between a node and the ensemble take a drawn time and keep
their order. A session outlives its connection by `session_ms`, and an outage of the ensemble prolongs all sessions. A
node learns of the loss of its session only when it reaches the ensemble again.

All waiting is done by `call_later`, and a node is called back by its own `post`. Calls may come on any thread where
these two allow it (`TimerThread`, `call_soon_threadsafe`). With one thread and a seeded `Random` a history repeats.
"""

import threading
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final, TypeAlias

from hutong.cluster.coordinator.memory_node import MemoryCoordinator
from hutong.cluster.coordinator.port import CoordinatorRegister, NodeRegistration, SessionState, other_cluster
from hutong.foundation.errors import CoordinatorUnavailable, ExitCode, HutongError, Refused, UsageError
from hutong.foundation.waiting.pending import Continuation
from hutong.wire.kafka.error_codes import ErrorCode

SESSION_MS: Final = 2_000
DELAY_MS_MAX: Final = 2

Work: TypeAlias = Callable[[], None]
CallLater: TypeAlias = Callable[[int, Work], object]
"""Called with (delay in milliseconds, callback)."""
Post: TypeAlias = Callable[[Work], object]
"""Runs a callback on a node's loop, soon, and in the order of the calls: `loop.call_soon` or its threadsafe form."""


class MemoryEnsemble:
    """The ensemble that the nodes of one process share. The methods from `expire` on are faults."""

    def __init__(
        self,
        call_later: CallLater,
        random: Random,
        *,
        session_ms: int = SESSION_MS,
        delay_ms_max: int = DELAY_MS_MAX,
        answers_lost: float = 0.0,
    ) -> None:
        """`answers_lost` is the chance that the answer to a compare-and-set is lost, though it was carried out."""
        self._call_later = call_later
        self._random = random
        self.session_ms = session_ms
        self._delay_ms_max = delay_ms_max
        self._answers_lost = answers_lost
        # Held in each entry from outside. Nothing of a node is called meanwhile: what it hears is posted.
        self.lock = threading.RLock()
        self._handles: list[MemoryCoordinator] = []
        self._sessions: dict[int, MemoryCoordinator] = {}  # whose registration it is, by node
        self._cut: set[int] = set()
        self._is_stopped = False
        self._answers_to_lose: set[int] = set()
        self.register = CoordinatorRegister(0, b"")
        self.cluster_id: str | None = None

    @property
    def members(self) -> dict[int, NodeRegistration]:
        """All registrations, by node."""
        with self.lock:
            return {node: self._sessions[node].registered() for node in sorted(self._sessions)}

    def connect(self, node: int, post: Post) -> MemoryCoordinator:
        """The coordinator of one process of the node, whose loop is reached by `post`."""
        return MemoryCoordinator(self, node, post)

    def expire(self, node: int) -> None:
        """End the node's session now, as if it had not been heard for too long. It registers anew by itself."""
        with self.lock:
            handle = self._sessions.get(node)
            if handle is not None:
                self._lose_connection(handle)
                self._end_session(handle)
                self._connect_later(handle)

    def suspend(self, node: int) -> None:
        """Cut the node off: all its processes, also those that start now."""
        with self.lock:
            self._cut.add(node)
            for handle in self._handles_of(node):
                self._lose_connection(handle)

    def resume(self, node: int) -> None:
        with self.lock:
            self._cut.discard(node)
            for handle in self._handles_of(node):
                self._connect_later(handle)

    def stop(self) -> None:
        """Begin an outage: nobody is answered, and no session ends meanwhile."""
        with self.lock:
            self._is_stopped = True
            for handle in list(self._handles):
                self._lose_connection(handle)

    def start(self) -> None:
        """End the outage. All sessions have their whole time again."""
        with self.lock:
            self._is_stopped = False
            for handle in self._sessions.values():
                self._expire_later(handle)
            for handle in list(self._handles):
                self._connect_later(handle)

    def lose_next_answer(self, node: int) -> None:
        """Lose the answer to the node's next compare-and-set, though it is carried out."""
        with self.lock:
            self._answers_to_lose.add(node)

    # -- what coordinators call, with the lock held

    def reaches(self, handle: MemoryCoordinator) -> bool:
        """True where the process is alive, and nothing is between it and the ensemble."""
        return not (self._is_stopped or handle.is_gone or handle.node in self._cut)

    def later(self, work: Work) -> None:
        """Do it after a drawn time, with the lock."""
        self._after(self._random.randint(0, self._delay_ms_max), work)

    def enter(self, handle: MemoryCoordinator) -> None:
        """Begin with a process: connect and register it, or refuse it after two sessions."""
        self._handles.append(handle)
        self._after(2 * self.session_ms, partial(self._give_up, handle))
        self._connect_later(handle)

    def leave(self, handle: MemoryCoordinator) -> None:
        """End the session of a process that stops. Where the ensemble is not reached it expires."""
        is_reached = self.reaches(handle)
        self.vanish(handle)
        if is_reached and self._sessions.get(handle.node) is handle:
            self._end_session(handle)

    def vanish(self, handle: MemoryCoordinator) -> None:
        """Note that the process is dead. Its session expires."""
        if handle in self._handles:
            self._handles.remove(handle)
        self._disappear(handle)

    def set_if(
        self, handle: MemoryCoordinator, version: int, value: bytes, then: Continuation[CoordinatorRegister]
    ) -> None:
        """Carry out a compare-and-set, and answer it."""
        outcome: CoordinatorRegister | HutongError
        if version != self.register.version:
            message = f"the register has version {self.register.version}, and not {version}"
            outcome = Refused(ErrorCode.INVALID_UPDATE_VERSION, message)
        else:
            outcome = self.register = CoordinatorRegister(version + 1, value)
            self._tell_all(MemoryCoordinator.hear_register)
        if handle.node in self._answers_to_lose or self._random.random() < self._answers_lost:
            self._answers_to_lose.discard(handle.node)
            outcome = CoordinatorUnavailable("the coordinator's answer was lost")
        handle.hear(partial(then, outcome))

    def describe(self, handle: MemoryCoordinator) -> None:
        """Pass on that the handle describes its node in another way."""
        if self._sessions.get(handle.node) is handle:
            self._tell_all(MemoryCoordinator.hear_members)

    # -- sessions

    def _after(self, delay_ms: int, work: Work) -> None:
        def locked() -> None:
            with self.lock:
                work()

        self._call_later(delay_ms, locked)

    def _handles_of(self, node: int) -> list[MemoryCoordinator]:
        return [handle for handle in self._handles if handle.node == node]

    def _tell_all(self, hear: Callable[[MemoryCoordinator], None]) -> None:
        for handle in self._handles:
            if handle.is_connected:
                hear(handle)

    def _lose_connection(self, handle: MemoryCoordinator) -> None:
        if not handle.is_connected:
            return
        # What is on its way to the ensemble arrives up to some point, and nothing is answered any more.
        handle.lose_connection(self._random.randint(0, handle.asked_count))
        if self._sessions.get(handle.node) is handle:
            self._expire_later(handle)

    def _disappear(self, handle: MemoryCoordinator) -> None:
        was_connected, handle.is_connected = handle.is_connected, False
        if was_connected and self._sessions.get(handle.node) is handle:
            self._expire_later(handle)

    def _expire_later(self, handle: MemoryCoordinator) -> None:
        handle.expiry += 1
        # It may have been heard up to a third of the session ago: that is how often kazoo and others say something.
        delay_ms = self.session_ms - self._random.randint(0, self.session_ms // 3)
        self._after(delay_ms, partial(self._expire, handle, handle.expiry))

    def _expire(self, handle: MemoryCoordinator, expiry: int) -> None:
        has_session = self._sessions.get(handle.node) is handle
        if has_session and expiry == handle.expiry and not handle.is_connected and not self._is_stopped:
            self._end_session(handle)

    def _end_session(self, handle: MemoryCoordinator) -> None:
        del self._sessions[handle.node]
        handle.expiry += 1
        self._tell_all(MemoryCoordinator.hear_members)
        # Another process with this number may be waiting for it.
        for waiting in self._handles_of(handle.node):
            if waiting.is_connected and waiting is not handle:
                self._register(waiting)

    def _connect_later(self, handle: MemoryCoordinator) -> None:
        if self.reaches(handle) and not handle.is_connected:
            self.later(partial(self._connect, handle))

    def _connect(self, handle: MemoryCoordinator) -> None:
        if handle.is_connected or not self.reaches(handle) or handle not in self._handles:
            return
        handle.is_connected = True
        handle.expiry += 1
        if self._sessions.get(handle.node) is handle:
            handle.enter_session()
            return
        if handle.is_started:
            handle.tell_session(SessionState.LOST)
        self._register(handle)

    def _register(self, handle: MemoryCoordinator) -> None:
        """Register a process that is connected, or let it wait until its number is free."""
        if handle.node in self._sessions:
            return
        if self.cluster_id is None:
            self.cluster_id = handle.proposed_cluster_id
        # Before it is registered: the others would give it replicas.
        if not handle.may_join and handle.proposed_cluster_id != self.cluster_id:
            self._handles.remove(handle)
            self._disappear(handle)
            handle.refuse(other_cluster("the coordinator in memory", handle.proposed_cluster_id, self.cluster_id))
            return
        self._sessions[handle.node] = handle
        handle.enter_session()
        self._tell_all(MemoryCoordinator.hear_members)

    def _give_up(self, handle: MemoryCoordinator) -> None:
        if handle.is_started or handle not in self._handles:
            return
        self._handles.remove(handle)
        self._disappear(handle)
        if self._is_stopped or handle.node in self._cut:
            handle.refuse(UsageError("The coordinator in memory does not answer.", ExitCode.UNAVAILABLE))
        else:
            message = f"Another process is node {handle.node} of this cluster. Stop it, or set another node.id."
            handle.refuse(UsageError(message, ExitCode.CONFIG))
