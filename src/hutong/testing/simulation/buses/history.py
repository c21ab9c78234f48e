"""The history of a simulation of buses, and when which nodes were disturbed.

Knows nothing of buses.
"""

from dataclasses import dataclass, field

from hutong.testing.simulation.buses.availability import AvailabilityHistory
from hutong.testing.simulation.world import World


@dataclass(slots=True)
class SentMessage:
    """A message. `receipts` are (listener, time) pairs, and `ends` (time, outcome) pairs of a request."""

    name: str
    sender: str
    number: int
    node: int
    process: str
    address: str
    is_publication: bool
    at_us: int
    timeout_us: int | None  # of a request
    is_refused: bool = False  # the call raised
    receipts: list[tuple[str, int]] = field(default_factory=list)
    ends: list[tuple[int, str]] = field(default_factory=list)


@dataclass(slots=True)
class ListenerLife:
    """One life of a consumer. Times are None until then."""

    name: str
    node: int
    process: str
    address: str
    local_only: bool
    at_us: int
    ready_us: int | None = None
    gone_us: int | None = None  # unregistered, or its process has ended
    is_unregistered: bool = False
    may_discard: bool = False  # it pauses, and what comes meanwhile may be too much


@dataclass(frozen=True, slots=True)
class Disturbance:
    """A time in which a fault touches a node, or where there is another, the connections between the two."""

    node: int
    other: int | None
    begin_us: int
    end_us: int


class BusHistory:
    """Everything that the checkers need."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.messages: dict[str, SentMessage] = {}
        self.registrations: dict[str, ListenerLife] = {}
        self.disturbances: list[Disturbance] = []
        self.deaths: dict[str, int] = {}  # of processes, by name
        self.problems: list[str] = []  # what was seen at once
        self.availability = AvailabilityHistory(world)
        self._last: dict[tuple[str, str], int] = {}  # number that a listener has of a sender

    @property
    def now_us(self) -> int:
        return self.world.now_us

    def sent(self, message: SentMessage) -> None:
        self.messages[message.name] = message
        self.world.note(message.sender, f"{_verb(message)} {message.name} to {message.address}")

    def received(self, listener: str, name: str) -> None:
        """A handler got a message."""
        message = self.messages.get(name)
        registration = self.registrations[listener]
        self.world.note(listener, f"receives {name}")
        if message is None or message.address != registration.address:
            self.problems.append(f"{listener} received {name}, which nobody sent there")
        else:
            message.receipts.append((listener, self.now_us))
            self._check_order(listener, message)
        if registration.is_unregistered:
            self.problems.append(f"{listener} received {name} after it had unregistered")

    def _check_order(self, listener: str, message: SentMessage) -> None:
        """Messages of one sender reach a listener in the order of their sends, none twice."""
        pair = (listener, message.sender)
        last = self._last.get(pair, 0)
        if message.number == last:
            self.problems.append(f"{listener} received {message.name} twice")
        elif message.number < last:
            self.problems.append(f"{listener} received {message.name} after {message.sender}-{last}")
        self._last[pair] = max(last, message.number)

    def ended(self, message: SentMessage, outcome: str) -> None:
        """A request has ended."""
        self.world.note(message.sender, f"hears of {message.name}: {outcome}")
        message.ends.append((self.now_us, outcome))

    def registered(self, registration: ListenerLife) -> None:
        self.registrations[registration.name] = registration
        self.world.note(registration.process, f"registers {registration.name} at {registration.address}")

    def ready(self, name: str) -> None:
        self.registrations[name].ready_us = self.now_us
        self.world.note(self.registrations[name].process, f"has {name} announced")

    def unregistered(self, name: str) -> None:
        registration = self.registrations[name]
        registration.gone_us, registration.is_unregistered = self.now_us, True
        self.world.note(registration.process, f"has unregistered {name}")

    def died(self, process: str) -> None:
        """A process has ended, in order or not."""
        self.deaths[process] = self.now_us
        for registration in self.registrations.values():
            if registration.process == process and registration.gone_us is None:
                registration.gone_us = self.now_us

    def disturb(self, node: int, other: int | None, end_us: int) -> None:
        """Note that a fault begins now."""
        self.disturbances.append(Disturbance(node, other, self.now_us, end_us))

    def is_awake(self, node: int, begin_us: int, end_us: int) -> bool:
        """True where no fault touches the node itself in this time."""
        return not any(
            each.other is None and each.node == node and each.begin_us <= end_us and each.end_us >= begin_us
            for each in self.disturbances
        )

    def is_calm(self, one: int, other: int, begin_us: int, end_us: int) -> bool:
        """True where no fault touches either node, or what is between them, in this time."""
        between = any(
            {each.node, each.other} == {one, other} and each.begin_us <= end_us and each.end_us >= begin_us
            for each in self.disturbances
        )
        return not between and all(self.is_awake(node, begin_us, end_us) for node in (one, other))


def _verb(message: SentMessage) -> str:
    if message.is_publication:
        return "publishes"
    return "sends" if message.timeout_us is None else "asks"
