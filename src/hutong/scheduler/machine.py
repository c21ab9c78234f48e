"""Fair scheduling: actors with mailboxes share one executor (the idea of QMQ's actor system).

Rules kept:

- Each actor has a *virtual time*: what its turns have used, divided by its weight. The actor with the least is next. So
  actors that always have messages get equal shares, and one of weight 2 gets twice as much.
- What counts as used is the executor's time, or the cost of the messages that were begun (`charges_cost`). A turn
  counts as one quantum at least, so that many small messages have a price too.
- An actor that wakes has no arrears to collect: it begins at the time of those that run now, less a small `credit` for
  one that was away only to ask for more. A new actor begins one quantum later, behind all that wait, or a stream of
  newcomers would always be first.
- A turn ends with its quota, which is checked after each message: at least one is processed.
- Messages of an actor begin in their order, at most `in_flight_max` before the first of them is done.
- Messages begun and not done occupy their cost. While the next new one does not fit, none is begun, so a large one is
  not passed over for ever. Begun messages continue first, since they hold memory, and one is always admitted.

Knows nothing of clocks, loops or the content of messages: time used arrives with events, and work leaves as
instructions.
"""

import heapq
from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

QUOTA_US: Final = 1_000
MAILBOX_MAX: Final = 10_000
ACTORS_MAX: Final = 100_000
IDLE_ACTORS_MAX: Final = 4_096  # whose virtual time is remembered
COST_MAX: Final = 16 * 1024 * 1024
_UNIT: Final = 1_024  # of virtual time, for weight 1: divided by a weight it stays a whole number

Key = Hashable


@dataclass(frozen=True, slots=True)
class Sent:
    """A message for an actor, named by a number that is never used again. The actor's weight is that of the newest."""

    key: Key
    message: int
    cost: int
    weight: int = 1


@dataclass(frozen=True, slots=True)
class TurnBegun:
    """The executor is free."""


@dataclass(frozen=True, slots=True)
class Processed:
    """The answer to Process. A message that is not done continues after its Woken, which may have come before this."""

    used_us: int
    is_done: bool
    ends_turn: bool = False


@dataclass(frozen=True, slots=True)
class Woken:
    """A message that was begun can continue."""

    key: Key
    message: int


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The message is no longer needed. One that was begun is not affected: it continues until it is done."""

    key: Key
    message: int


@dataclass(frozen=True, slots=True)
class Process:
    """Process a message, and report it with Processed before anything else is begun."""

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
    """A message can be processed: begin a turn soon."""


Event = Sent | TurnBegun | Processed | Woken | Withdrawn
Instruction = Process | Refuse | Wake


class _Actor:
    __slots__ = ("begun", "key", "place", "virtual", "waiting", "weight")

    def __init__(self, key: Key, virtual: int) -> None:
        self.key = key
        self.waiting: OrderedDict[int, int] = OrderedDict()  # message to cost, the next one first
        self.begun: dict[int, int] = {}  # message to the cost that it holds until it is done
        self.virtual = virtual
        self.weight = 1
        self.place: _Place | None = None  # in the queue of those that can begin a message


_Place = tuple[int, int, _Actor]  # virtual time, arrival, actor


class Scheduler:
    """The actors of one executor."""

    def __init__(
        self,
        *,
        quota_us: int = QUOTA_US,
        mailbox_max: int = MAILBOX_MAX,
        actors_max: int = ACTORS_MAX,
        cost_max: int = COST_MAX,
        in_flight_max: int = 1,
        charges_cost: bool = False,
        quantum: int | None = None,
        credit: int = 0,
    ) -> None:
        """`quantum` and `credit` are in microseconds, or in units of cost with `charges_cost`."""
        self.turns_total = 0
        self.cost_begun = 0  # of the messages begun and not done
        self._quota_us = quota_us
        self._mailbox_max = mailbox_max
        self._actors_max = actors_max
        self._cost_max = cost_max
        self._in_flight_max = in_flight_max
        self._charges_cost = charges_cost
        self._quantum = quota_us if quantum is None else quantum
        self._credit = credit * _UNIT
        self._now = 0  # the virtual time of the turn that began last
        self._actors: dict[Key, _Actor] = {}  # with messages
        self._idle: OrderedDict[Key, int] = OrderedDict()  # virtual times of those without, by when they became so
        self._continuing: deque[tuple[_Actor, int]] = deque()  # messages that were woken
        self._beginning: list[_Place] = []  # a heap; an entry counts only while it is its actor's place
        self._running: _Actor | None = None
        self._message = 0  # that is being processed
        self._is_woken = False  # while it is being processed
        self._turn_used_us = 0
        self._turn_cost = 0
        self._arrivals = 0

    def __len__(self) -> int:
        """Messages not done."""
        return sum(len(actor.waiting) + len(actor.begun) for actor in self._actors.values())

    def handle(self, event: Event) -> list[Instruction]:
        match event:
            case Sent():
                return self._send(event)
            case TurnBegun():
                return self._begin_turn()
            case Processed():
                return self._processed(event)
            case Woken(key, message):
                return self._wake_message(key, message)
            case Withdrawn(key, message):
                return self._withdraw(key, message)

    def check_invariants(self) -> None:
        begun = [cost for actor in self._actors.values() for cost in actor.begun.values()]
        assert sum(begun) == self.cost_begun
        assert self.cost_begun <= max([self._cost_max, *begun])
        for actor in self._actors.values():
            assert actor.waiting or actor.begun or actor is self._running
            assert len(actor.waiting) + len(actor.begun) <= self._mailbox_max
            assert len(actor.begun) <= self._in_flight_max
            can_begin = bool(actor.waiting) and actor is not self._running and len(actor.begun) < self._in_flight_max
            assert can_begin == (actor.place is not None), "a message that can begin is in the queue"
        for actor, message in self._continuing:
            assert message in actor.begun
        assert not self._actors.keys() & self._idle.keys()

    def _send(self, sent: Sent) -> list[Instruction]:
        actor = self._actors.get(sent.key)
        if actor is None:
            # Only a new actor counts: those with messages keep their place at the bound.
            if len(self._actors) >= self._actors_max:
                return [Refuse(sent.message, "actors_max", self._actors_max)]
            # An actor that pauses keeps its virtual time, or a client could reset its share by pausing.
            virtual = self._idle.pop(sent.key, self._now + self._quantum * _UNIT)
            actor = self._actors[sent.key] = _Actor(sent.key, virtual)
        # The bound of one actor: the node's memory must not depend on how fast one client sends.
        elif len(actor.waiting) + len(actor.begun) >= self._mailbox_max:
            return [Refuse(sent.message, "mailbox_max", self._mailbox_max)]
        # It was idle, or all that it asked for is on its way: time that it did not use is no claim on others.
        if not actor.waiting:
            actor.virtual = max(actor.virtual, self._now - self._credit)
        actor.weight = sent.weight
        actor.waiting[sent.message] = sent.cost
        self._enqueue(actor)
        return self._wake()

    def _begin_turn(self) -> list[Instruction]:
        assert self._running is None, "one turn at a time"
        self._turn_used_us = self._turn_cost = 0
        # Begun messages hold their cost, so they never need room.
        if self._continuing:
            actor, message = self._continuing.popleft()
            actor.place = None
            self.turns_total += 1
            self._running = actor
            return [self._process(message)]
        actor_or_none = self._next()
        # The messages that were ready may have been withdrawn since the wake-up.
        if actor_or_none is None:
            return []
        actor = actor_or_none
        actor.place = None
        self.turns_total += 1
        # One with credit begins before the others' time, which must not go back for that.
        self._now = max(self._now, actor.virtual)
        self._running = actor
        return [self._process(self._begin_first(actor))]

    def _begin_first(self, actor: _Actor) -> int:
        """Begin the first message that waits; returns it."""
        message, cost = actor.waiting.popitem(last=False)
        actor.begun[message] = cost
        self.cost_begun += cost
        # Never 0: `_charge` sees by it that something was begun.
        self._turn_cost += max(1, cost)
        return message

    def _process(self, message: int) -> Process:
        assert self._running is not None
        self._message = message
        self._is_woken = False
        return Process(self._running.key, message)

    def _processed(self, processed: Processed) -> list[Instruction]:
        actor = self._running
        assert actor is not None, "nothing was to be processed"
        self._turn_used_us += processed.used_us
        if processed.is_done:
            self.cost_begun -= actor.begun.pop(self._message)
            # The quota is checked between messages alone: a message is not interrupted.
            is_over = processed.ends_turn or self._turn_used_us >= self._quota_us
            if not is_over and self._may_begin_another(actor):
                return [self._process(self._begin_first(actor))]
        # Not done and not woken: the machine hears of it again with Woken, and the actor may begin others until then.
        elif self._is_woken:
            self._continuing.append((actor, self._message))
        self._running = None
        # Before it queues again, by what it has used.
        self._charge(actor)
        self._enqueue(actor)
        self._forget_if_idle(actor)
        return self._wake()

    def _charge(self, actor: _Actor) -> None:
        """Add what the turn has used to the actor's virtual time."""
        used = self._turn_cost if self._charges_cost else self._turn_used_us
        # A turn that only continued what was begun has paid its quantum already.
        charge = max(used, self._quantum) if self._turn_cost else used
        actor.virtual += charge * _UNIT // actor.weight

    def _may_begin_another(self, actor: _Actor) -> bool:
        """True when the running actor may begin another message without the room that the head of the queue needs."""
        if not actor.waiting or len(actor.begun) >= self._in_flight_max:
            return False
        waiting = _first(self._beginning)
        # No other actor waits to begin: the bound alone decides.
        if waiting is None:
            return self._fits(_first_cost(actor))
        # Leave room for the head of the queue too: a busy actor must not delay a large message for its whole turn.
        return self.cost_begun + _first_cost(actor) + _first_cost(waiting[2]) <= self._cost_max

    def _wake_message(self, key: Key, message: int) -> list[Instruction]:
        actor = self._actors.get(key)
        # Work that failed is done, although something of it may still end.
        if actor is None or message not in actor.begun:
            return []
        # Its result came while it was being processed: it continues in a later turn.
        if actor is self._running and message == self._message:
            self._is_woken = True
            return []
        self._continuing.append((actor, message))
        return self._wake()

    def _withdraw(self, key: Key, message: int) -> list[Instruction]:
        actor = self._actors.get(key)
        # It is being processed or on its way, and continues until it is done.
        if actor is None or message not in actor.waiting:
            return []
        is_first = next(iter(actor.waiting)) == message
        del actor.waiting[message]
        # A running actor is forgotten at the end of its turn.
        if not actor.waiting and actor is not self._running:
            actor.place = None
            self._forget_if_idle(actor)
        return self._wake() if is_first else []  # those behind a large one may fit

    def _enqueue(self, actor: _Actor) -> None:
        can_begin = actor.waiting and actor is not self._running and len(actor.begun) < self._in_flight_max
        if actor.place is None and can_begin:
            self._arrivals += 1
            actor.place = (actor.virtual, self._arrivals, actor)
            heapq.heappush(self._beginning, actor.place)

    def _forget_if_idle(self, actor: _Actor) -> None:
        if not actor.waiting and not actor.begun and actor is not self._running:
            del self._actors[actor.key]
            self._idle[actor.key] = actor.virtual
            # The longest idle one loses its history.
            if len(self._idle) > IDLE_ACTORS_MAX:
                self._idle.popitem(last=False)

    def _wake(self) -> list[Instruction]:
        return [Wake()] if self._running is None and (self._continuing or self._next() is not None) else []

    def _next(self) -> _Actor | None:
        """The actor that begins its first message next, or None when none can."""
        place = _first(self._beginning)
        # The head waits for room, and nothing overtakes it: small messages would starve a large one.
        return place[2] if place is not None and self._fits(_first_cost(place[2])) else None

    def _fits(self, cost: int) -> bool:
        # A message larger than the bound runs alone.
        return not self.cost_begun or self.cost_begun + cost <= self._cost_max


def _first_cost(actor: _Actor) -> int:
    return next(iter(actor.waiting.values()))


def _first(queue: list[_Place]) -> _Place | None:
    """Return the head of a queue, after dropping places that their actors have left."""
    # A heap removes from its head alone, so a place that was left stays until it is the head.
    while queue and queue[0][2].place is not queue[0]:
        heapq.heappop(queue)
    return queue[0] if queue else None
