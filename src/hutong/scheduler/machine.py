"""Fair scheduling: actors with mailboxes take turns on one executor (the idea of QMQ's actor system).

Rules kept:

- A message leaves its mailbox only once it is done, so an actor keeps its order.
- A turn ends with its quota, which is checked after each message: at least one is processed.
- The actor that ran or woke longest ago is next; among those of the same turn, the one that has used less time. By time
  used alone a newcomer, or one that was idle for long, would have the executor to itself until it caught up; by last
  execution alone a stream of newcomers would always be first. Here an actor that wakes goes behind all that wait, so
  an actor waits for each other at most once.
- A suspended actor has no turn until it was resumed as often as suspended. A resume that comes while its actor runs is
  not lost when the suspend follows.
- Messages begun and not done occupy their cost. While the next new one does not fit, none is begun, so a large one is
  not passed over for ever. Begun messages continue, and one is always admitted.

Knows nothing of clocks, loops or the content of messages: time used arrives with events, and work leaves as
instructions.
"""

import heapq
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

QUOTA_US: Final = 5_000
MAILBOX_MAX: Final = 10_000
ACTORS_MAX: Final = 100_000
IDLE_ACTORS_MAX: Final = 4_096  # whose time used is remembered
COST_MAX: Final = 16 * 1024 * 1024

Key = Hashable


@dataclass(frozen=True, slots=True)
class Sent:
    """A message for an actor, named by a number that is never used again."""

    key: Key
    message: int
    cost: int


@dataclass(frozen=True, slots=True)
class TurnBegun:
    """The executor is free."""


@dataclass(frozen=True, slots=True)
class Processed:
    """The answer to Process. A message that is not done stays first in its mailbox."""

    used_us: int
    is_done: bool
    ends_turn: bool = False


@dataclass(frozen=True, slots=True)
class Suspended:
    key: Key


@dataclass(frozen=True, slots=True)
class Resumed:
    key: Key


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The message is no longer needed. One that was begun is not affected: it continues until it is done."""

    key: Key
    message: int


@dataclass(frozen=True, slots=True)
class Process:
    """Process the first message of an actor, and report it with Processed before anything else is begun."""

    key: Key
    message: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """There is no room for a message; the driver reports it to the sender."""

    message: int
    limit: str
    maximum: int


@dataclass(frozen=True, slots=True)
class Wake:
    """An actor can run: begin a turn soon."""


Event = Sent | TurnBegun | Processed | Suspended | Resumed | Withdrawn
Instruction = Process | Refuse | Wake


class _Actor:
    __slots__ = ("is_begun", "key", "mailbox", "place", "suspends", "used_us")

    def __init__(self, key: Key, used_us: int) -> None:
        self.key = key
        self.mailbox: OrderedDict[int, int] = OrderedDict()  # message to cost, the next one first
        self.is_begun = False  # whether the first message was processed before, and so holds its cost
        self.suspends = 0  # below zero only while it runs
        self.used_us = used_us
        self.place: _Place | None = None  # in the queue it waits in


_Place = tuple[int, int, int, _Actor]  # turn in which it ran or woke, time used, arrival, actor


class Scheduler:
    """The actors of one executor."""

    def __init__(
        self,
        *,
        quota_us: int = QUOTA_US,
        mailbox_max: int = MAILBOX_MAX,
        actors_max: int = ACTORS_MAX,
        cost_max: int = COST_MAX,
    ) -> None:
        self.turns_total = 0
        self.cost_begun = 0  # of the messages begun and not done
        self._quota_us = quota_us
        self._mailbox_max = mailbox_max
        self._actors_max = actors_max
        self._cost_max = cost_max
        self._actors: dict[Key, _Actor] = {}  # with messages, or suspended
        self._idle_used_us: OrderedDict[Key, int] = OrderedDict()  # of those without, by when they became so
        self._continuing: list[_Place] = []  # heaps; an entry counts only while it is its actor's place
        self._beginning: list[_Place] = []
        self._running: _Actor | None = None
        self._turn_used_us = 0
        self._arrivals = 0

    def __len__(self) -> int:
        """Messages not done."""
        return sum(len(actor.mailbox) for actor in self._actors.values())

    def handle(self, event: Event) -> list[Instruction]:
        match event:
            case Sent():
                return self._send(event)
            case TurnBegun():
                return self._begin_turn()
            case Processed():
                return self._processed(event)
            case Suspended(key):
                self._suspend(self._actor(key))
                return []
            case Resumed(key):
                return self._resume(key)
            case Withdrawn(key, message):
                return self._withdraw(key, message)

    def check_invariants(self) -> None:
        begun = [next(iter(actor.mailbox.values())) for actor in self._actors.values() if actor.is_begun]
        assert sum(begun) == self.cost_begun
        assert self.cost_begun <= max([self._cost_max, *begun])
        for actor in self._actors.values():
            assert 0 < len(actor.mailbox) <= self._mailbox_max or actor.suspends or actor is self._running
            assert actor.suspends >= 0 or actor is self._running
            is_ready = bool(actor.mailbox) and actor is not self._running and not actor.suspends
            assert is_ready == (actor.place is not None), "a message that can be processed is in a queue"
        assert not self._actors.keys() & self._idle_used_us.keys()

    def _send(self, sent: Sent) -> list[Instruction]:
        # Only a new actor counts: those with messages keep their place at the bound.
        if sent.key not in self._actors and len(self._actors) >= self._actors_max:
            return [Refuse(sent.message, "actors_max", self._actors_max)]
        actor = self._actor(sent.key)
        # The bound of one actor: the node's memory must not depend on how fast one client sends.
        if len(actor.mailbox) >= self._mailbox_max:
            return [Refuse(sent.message, "mailbox_max", self._mailbox_max)]
        actor.mailbox[sent.message] = sent.cost
        return self._enqueue(actor)

    def _actor(self, key: Key) -> _Actor:
        actor = self._actors.get(key)
        if actor is None:
            # An actor that pauses keeps its used time, or a client could reset its fairness by pausing.
            actor = self._actors[key] = _Actor(key, self._idle_used_us.pop(key, 0))
        return actor

    def _begin_turn(self) -> list[Instruction]:
        assert self._running is None, "one turn at a time"
        actor = self._next()
        # The actors that were ready may have been suspended or withdrawn since the wake-up.
        if actor is None:
            return []
        actor.place = None
        self.turns_total += 1
        self._turn_used_us = 0
        self._running = actor
        return [self._process_first(actor)]

    def _process_first(self, actor: _Actor) -> Process:
        message, cost = next(iter(actor.mailbox.items()))
        # A message that continues in a later turn holds its cost already.
        if not actor.is_begun:
            actor.is_begun = True
            self.cost_begun += cost
        return Process(actor.key, message)

    def _processed(self, processed: Processed) -> list[Instruction]:
        actor = self._running
        assert actor is not None, "nothing was to be processed"
        actor.used_us += processed.used_us
        self._turn_used_us += processed.used_us
        if processed.is_done:
            self.cost_begun -= actor.mailbox.popitem(last=False)[1]
            actor.is_begun = False
            # The quota is checked between messages alone: a message is not interrupted.
            is_over = processed.ends_turn or self._turn_used_us >= self._quota_us
            if not is_over and self._may_continue(actor):
                return [self._process_first(actor)]
        self._running = None
        # A resume whose suspend never came is used up with the turn.
        actor.suspends = max(0, actor.suspends)
        self._enqueue(actor)
        self._forget_if_idle(actor)
        return self._wake()

    def _may_continue(self, actor: _Actor) -> bool:
        """True when the running actor may begin another message without the room that the head of the queue needs."""
        if not actor.mailbox or actor.suspends > 0:
            return False
        waiting = _first(self._beginning)
        # No other actor waits to begin: the bound alone decides.
        if waiting is None:
            return self._fits(_first_cost(actor))
        # Leave room for the head of the queue too: a busy actor must not delay a large message for its whole turn.
        return self.cost_begun + _first_cost(actor) + _first_cost(waiting[3]) <= self._cost_max

    def _suspend(self, actor: _Actor) -> None:
        actor.suspends += 1
        # Its entry stays in the heap: removal from the middle is linear, and `_first` drops stale entries.
        if actor.suspends > 0:
            actor.place = None

    def _resume(self, key: Key) -> list[Instruction]:
        actor = self._actors.get(key)
        # A resume without a suspend; while the actor runs it may come before its suspend.
        if actor is None or (actor.suspends <= 0 and actor is not self._running):
            return []
        # Below zero while it runs: a resume that comes before its suspend cancels that one (see the rules).
        actor.suspends -= 1
        # It is enqueued when its turn ends, at the back.
        if actor is self._running:
            return []
        self._forget_if_idle(actor)
        return self._enqueue(actor)

    def _withdraw(self, key: Key, message: int) -> list[Instruction]:
        actor = self._actors.get(key)
        if actor is None or message not in actor.mailbox:
            return []
        is_first = next(iter(actor.mailbox)) == message
        # It is being processed, and continues until it is done.
        if is_first and actor.is_begun:
            return []
        del actor.mailbox[message]
        # A running actor is forgotten at the end of its turn.
        if not actor.mailbox and actor is not self._running:
            actor.place = None
            self._forget_if_idle(actor)
        return self._wake() if is_first else []  # those behind a large one may fit

    def _enqueue(self, actor: _Actor) -> list[Instruction]:
        if actor.place is None and actor.mailbox and actor.suspends <= 0 and actor is not self._running:
            self._arrivals += 1
            # Round robin by the turn in which it became ready, then least used time, then arrival.
            actor.place = (self.turns_total, actor.used_us, self._arrivals, actor)
            # Begun messages hold their cost, so they never need room: two queues keep them from waiting behind one that
            # does.
            heapq.heappush(self._continuing if actor.is_begun else self._beginning, actor.place)
        return self._wake()

    def _forget_if_idle(self, actor: _Actor) -> None:
        if not actor.mailbox and not actor.suspends and actor is not self._running:
            del self._actors[actor.key]
            self._idle_used_us[actor.key] = actor.used_us
            # The longest idle one loses its history.
            if len(self._idle_used_us) > IDLE_ACTORS_MAX:
                self._idle_used_us.popitem(last=False)

    def _wake(self) -> list[Instruction]:
        return [Wake()] if self._running is None and self._next() is not None else []

    def _next(self) -> _Actor | None:
        """The actor that runs next, or None when none can run."""
        continuing, beginning = _first(self._continuing), _first(self._beginning)
        # The head waits for room, and nothing overtakes it: small messages would starve a large one.
        if beginning is not None and not self._fits(_first_cost(beginning[3])):
            beginning = None
        ready = [place for place in (continuing, beginning) if place is not None]
        return min(ready)[3] if ready else None

    def _fits(self, cost: int) -> bool:
        # A message larger than the bound runs alone.
        return not self.cost_begun or self.cost_begun + cost <= self._cost_max


def _first_cost(actor: _Actor) -> int:
    return next(iter(actor.mailbox.values()))


def _first(queue: list[_Place]) -> _Place | None:
    """Return the head of a queue, after dropping places that their actors have left."""
    # A heap removes from its head alone, so a place that was left stays until it is the head.
    while queue and queue[0][3].place is not queue[0]:
        heapq.heappop(queue)
    return queue[0] if queue else None
