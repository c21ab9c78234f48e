"""Rules of a clustered bus, each with a way to leave it out, and how many seeds a simulation of buses needs to notice.

Strategy: as `simulation_ablations`: seeds come in order, with faults of every kind, and a promise has to be broken: an
exception that nobody handles is none.

python -m tests.fault.bus_ablations [NAME...]    prints for each rule how many seeds it took, and the promise
"""

import logging
import sys
from typing import Any, Final, NamedTuple

import pytest
from tests.fault.ablation_search import Patch

from hutong.bus.clustered import machine, messages
from hutong.bus.clustered.availability.driver import Availability
from hutong.bus.clustered.availability.machine import AvailabilityMachine
from hutong.bus.clustered.availability.messages import NodeTakenOver, OwnWritten, TakeOver, WriteOwn
from hutong.bus.clustered.connections import AcceptedConnections
from hutong.bus.clustered.driver import ClusteredBus
from hutong.bus.clustered.link import NodeLink
from hutong.bus.clustered.machine import ClusterMachine
from hutong.bus.clustered.outbox import Outbox
from hutong.bus.delivery.consumer import Consumer
from hutong.testing.simulation.buses.plan import BUS_FAULTS, draw_bus_plan
from hutong.testing.simulation.buses.simulation import BusSimulation

SEEDS_MAX: Final = 300
MINUTES: Final = 0.1
_UNHANDLED: Final = "node failure"


def delivers_by_any_connection_of_a_node(patch: pytest.MonkeyPatch) -> None:
    def name(_: AcceptedConnections, connection: Any, node: str) -> None:
        connection.node = node

    patch.setattr(AcceptedConnections, "_name", name)


def sends_before_a_ping_is_answered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClusterMachine, "_connected", ClusterMachine._answered)


def keeps_the_former_life_of_a_node(patch: pytest.MonkeyPatch) -> None:
    sends_before_a_ping_is_answered(patch)
    patch.setattr(ClusterMachine, "_newly_replaced", lambda *_: set())


def keeps_the_listeners_of_dead_nodes(patch: pytest.MonkeyPatch) -> None:
    change, register = ClusterMachine._change_nodes, ClusterMachine._register

    def with_the_dead(self: ClusterMachine, nodes: Any, now_ms: int) -> Any:
        known = {node: link.info for node, link in self._links.items() if link.info is not None}
        return change(self, {**known, **nodes}, now_ms)

    def with_theirs(self: ClusterMachine, address: str, counts: Any) -> Any:
        return register(self, address, {**self._counts.get(address, {}), **counts})

    patch.setattr(ClusterMachine, "_change_nodes", with_the_dead)
    patch.setattr(ClusterMachine, "_register", with_theirs)
    patch.setattr(machine, "_RECEIVING", tuple(machine.LinkState))


def sends_past_what_waits(patch: pytest.MonkeyPatch) -> None:
    put = Outbox.put

    def hasty(self: Outbox, frame: Any) -> None:
        link: Any = self._transmit
        if link.__self__.peer is None:
            put(self, frame)
        else:
            self._transmit([frame], len(frame[0]))

    patch.setattr(Outbox, "put", hasty)


def sends_the_newest_first(patch: pytest.MonkeyPatch) -> None:
    take = Outbox._take

    def reversed_(self: Outbox, count_max: int, bytes_max: int) -> Any:
        taken, size = take(self, count_max, bytes_max)
        return taken[::-1], size

    patch.setattr(Outbox, "_take", reversed_)


def loses_a_withdrawal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClusteredBus, "_withdraw", lambda *_: None)


def announces_what_is_for_its_own_node(patch: pytest.MonkeyPatch) -> None:
    added = ClusteredBus.consumer_added

    def shown(self: ClusteredBus, consumer: Consumer) -> None:
        was_hidden, consumer.local_only = consumer.local_only, False
        added(self, consumer)
        consumer.local_only = was_hidden

    patch.setattr(ClusteredBus, "consumer_added", shown)


def delivers_to_what_has_unregistered(patch: pytest.MonkeyPatch) -> None:
    carefully = Consumer.take_carefully

    def careless(self: Consumer, message: Any) -> object:
        if not self.is_registered and self._handler is not None:
            return self._handler(message)
        return carefully(self, message)

    patch.setattr(Consumer, "take_carefully", careless)


def lets_requests_wait_for_a_dead_node(patch: pytest.MonkeyPatch) -> None:
    fail_all = NodeLink.fail_all

    def patient(self: NodeLink, reason: str) -> None:
        awaited, self._awaited = self._awaited, {}
        fail_all(self, reason)
        self._awaited = awaited

    patch.setattr(NodeLink, "fail_all", patient)


def sends_a_publication_for_each_consumer(patch: pytest.MonkeyPatch) -> None:
    carry_out = ClusteredBus._carry_out

    def repeated(self: ClusteredBus, instruction: Any) -> None:
        if isinstance(instruction, messages.PlaceRemote):
            turns = tuple((node, 1) for node, count in instruction.turns for _ in range(count))
            instruction = messages.PlaceRemote(instruction.address, turns)
        carry_out(self, instruction)

    patch.setattr(ClusteredBus, "_carry_out", repeated)


def queues_without_a_bound(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Outbox, "__len__", lambda self: len(self._waiting))


def runs_without_a_quorum(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AvailabilityMachine, "_count", _counted_as_one)


def _counted_as_one(self: AvailabilityMachine) -> list[Any]:
    self._has_quorum = True
    return []


def takes_over_without_a_transaction(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AvailabilityMachine, "_successor_of", lambda self, _: self._node)
    done = Availability._done

    async def hasty(self: Availability, operation: Any) -> Any:
        if isinstance(operation, TakeOver):
            operation = WriteOwn(operation.verticles, operation.version)
            event = await done(self, operation)
            return NodeTakenOver(event.version) if isinstance(event, OwnWritten) else event
        return await done(self, operation)

    patch.setattr(Availability, "_done", hasty)


def keeps_what_others_have_taken_over(patch: pytest.MonkeyPatch) -> None:
    give_up = AvailabilityMachine._give_up

    def stubborn(self: AvailabilityMachine, id: str, reason: str) -> None:
        if reason == "it is undeployed":
            give_up(self, id, reason)

    patch.setattr(AvailabilityMachine, "_give_up", stubborn)


def goes_on_without_its_session(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Availability, "_cut_off", lambda _: None)


def takes_nothing_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AvailabilityMachine, "_successor_of", lambda *_: "nobody")


class BusRule(NamedTuple):
    """A rule, the patch that leaves it out, a seed that notices, and whether the looks at nodes' insides notice it."""

    sentence: str
    leave_out: Patch
    seed: int
    is_inside: bool = False

    def __str__(self) -> str:
        return self.leave_out.__name__


RULES: Final = (
    BusRule("the newest connection of a node counts", delivers_by_any_connection_of_a_node, 24),
    BusRule("a connection counts once a ping was answered", sends_before_a_ping_is_answered, 42),
    BusRule("and a newer node replaces one at its place", keeps_the_former_life_of_a_node, 11),
    BusRule("listeners of a dead node leave the rounds", keeps_the_listeners_of_dead_nodes, 1),
    BusRule("messages of a node leave in their order", sends_the_newest_first, 1),
    BusRule("none leaves before those that wait", sends_past_what_waits, 49),
    BusRule("a consumer that has gone is withdrawn", loses_a_withdrawal, 1),
    BusRule("consumers for their own node are hidden", announces_what_is_for_its_own_node, 3),
    BusRule("what has unregistered receives nothing", delivers_to_what_has_unregistered, 3),
    BusRule("requests end with the node that has them", lets_requests_wait_for_a_dead_node, 28),
    BusRule("a node gets a publication once", sends_a_publication_for_each_consumer, 1),
    BusRule("what waits for a node is bounded", queues_without_a_bound, 140, is_inside=True),
    BusRule("a group without its quorum runs nothing", runs_without_a_quorum, 4),
    BusRule("one node takes over, by one transaction", takes_over_without_a_transaction, 8),
    BusRule("what others have taken over ends here", keeps_what_others_have_taken_over, 81),
    BusRule("a node without its session runs nothing", goes_on_without_its_session, 156),
    BusRule("verticles of dead nodes are taken over", takes_nothing_over, 8),
)


def noticed(rule: BusRule, seed: int) -> str | None:
    """The promise that is broken without the rule. To be called where the rule is left out."""
    errors = BusSimulation(draw_bus_plan(seed, MINUTES, BUS_FAULTS)).run().errors
    told = [error for error in errors if rule.is_inside or not error.startswith(_UNHANDLED)]
    return told[0] if told else None


def seeds_until_noticed(rule: BusRule, seeds_max: int = SEEDS_MAX) -> tuple[int, str] | None:
    """The first seed that notices, and the promise; None where none does."""
    with pytest.MonkeyPatch.context() as patch:
        rule.leave_out(patch)
        for seed in range(1, seeds_max + 1):
            promise = noticed(rule, seed)
            if promise is not None:
                return seed, promise
    return None


def main() -> None:
    logging.disable(logging.CRITICAL)  # nodes complain, as they should
    for rule in RULES:
        if sys.argv[1:] and str(rule) not in sys.argv[1:]:
            continue
        found = seeds_until_noticed(rule)
        seed = "not noticed" if found is None else f"by seed {found[0]}: {found[1].splitlines()[0]}"
        print(f"{rule.sentence:50} {rule!s:45} {seed}", flush=True)


if __name__ == "__main__":
    main()
