"""One simulation: start everything, let faults happen, heal, read everything, check.

Strategy: three times follow each other. The faulty time has the plan's length. In the quiet time nothing is broken any
more, and every client must finish what it began within `QUIET_S_MAX`. Then a client that nobody disturbs asks its final
questions, and the checkers compare.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine, Iterator, Mapping
from itertools import chain
from random import Random
from typing import Any, Final

from hutong.cluster.coordinator.memory import MemoryEnsemble
from hutong.server.configuration import loader
from hutong.server.configuration.settings import Settings
from hutong.testing.simulation.checkers.bus_checker import check_bus
from hutong.testing.simulation.checkers.call_checker import check_calls
from hutong.testing.simulation.checkers.compaction_checker import check_compaction
from hutong.testing.simulation.checkers.freshness_checker import check_freshness
from hutong.testing.simulation.checkers.group_checker import check_groups
from hutong.testing.simulation.checkers.keeper_checker import check_kept_groups
from hutong.testing.simulation.checkers.log_checker import check_log
from hutong.testing.simulation.checkers.processing_checker import check_processing
from hutong.testing.simulation.checkers.share_checker import check_share_groups
from hutong.testing.simulation.checkers.stream_checker import check_streams
from hutong.testing.simulation.checkers.time_checker import check_times
from hutong.testing.simulation.checkers.topic_checker import check_topics
from hutong.testing.simulation.checkers.transaction_checker import check_transactions
from hutong.testing.simulation.clients.admin import SimAdmin
from hutong.testing.simulation.clients.bus_member import SimBusMember
from hutong.testing.simulation.clients.caller import SimCaller
from hutong.testing.simulation.clients.client import ClientContext, KafkaClient, SimClient
from hutong.testing.simulation.clients.groups.classic_member import SimClassicMember
from hutong.testing.simulation.clients.groups.consumer_member import SimConsumerMember
from hutong.testing.simulation.clients.groups.share_consumer import SimShareConsumer
from hutong.testing.simulation.clients.groups.share_groups import FINISH_S_MAX, configure_share_group
from hutong.testing.simulation.clients.keeper import SimKeeper
from hutong.testing.simulation.clients.keyed import SimKeyedProducer, SimKeyedTeller
from hutong.testing.simulation.clients.mover import SimMover
from hutong.testing.simulation.clients.producer import SimProducer
from hutong.testing.simulation.clients.reader import SimReader
from hutong.testing.simulation.clients.temporary import SimTemporaryUser
from hutong.testing.simulation.clients.transactions.processor import SimProcessor
from hutong.testing.simulation.clients.transactions.producer import SimTransactionalProducer
from hutong.testing.simulation.faults.injector import FaultInjector
from hutong.testing.simulation.final_questions import FinalQuestions
from hutong.testing.simulation.history import SimulationHistory
from hutong.testing.simulation.hosts.host import SimHost
from hutong.testing.simulation.network.connections import RESEND_US_MAX
from hutong.testing.simulation.network.network import SimNetwork
from hutong.testing.simulation.nodes import SimNode
from hutong.testing.simulation.outcome import SimulationOutcome
from hutong.testing.simulation.plan import clients as planned
from hutong.testing.simulation.plan.plan import PlannedMachine, SimulationPlan
from hutong.testing.simulation.replica_checks import LeaderWatch, LogContent, LogKey, differences, holders, read_logs
from hutong.testing.simulation.services import BRIDGE_PORT, KAFKA_PORT, PEER_PORT, NodeDesk
from hutong.testing.simulation.world import World
from hutong.wire.kafka.apis.k19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from hutong.wire.kafka.error_codes import ErrorCode

QUIET_S_MAX: Final = 60
PROGRESS_S_MAX: Final = 20
"""After all faults, until each partition and each group of a cluster is served again."""
REST_S_MAX: Final = 20
"""After the last question, until all replicas of a cluster have the same."""
LATE_READ_US: Final = 500_000
"""A leader may serve reads for a session after it was last heard; clocks differ, and questions are on their way."""
_SECOND_US: Final = 1_000_000
_CHECKER: Final = "checker"
CLIENTS: Final[dict[type[planned.PlannedClient], Callable[[ClientContext, Any], SimClient]]] = {
    planned.PlannedReader: SimReader,
    planned.PlannedProducer: SimProducer,
    planned.PlannedKeyedProducer: SimKeyedProducer,
    planned.PlannedClassicMember: SimClassicMember,
    planned.PlannedConsumerMember: SimConsumerMember,
    planned.PlannedShareMember: SimShareConsumer,
    planned.PlannedTransactionalProducer: SimTransactionalProducer,
    planned.PlannedKeyedTeller: SimKeyedTeller,
    planned.PlannedKeeper: SimKeeper,
    planned.PlannedProcessor: SimProcessor,
    planned.PlannedAdmin: SimAdmin,
    planned.PlannedTemporaryUser: SimTemporaryUser,
    planned.PlannedMover: SimMover,
    planned.PlannedCaller: SimCaller,
    planned.PlannedBusMember: SimBusMember,
}
CHECKS: Final = (
    check_log,
    check_freshness,
    check_groups,
    check_share_groups,
    check_topics,
    check_kept_groups,
    check_times,
    check_compaction,
    check_transactions,
    check_processing,
    check_calls,
    check_streams,
    check_bus,
)
_CREATED: Final = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
_Work = Callable[[], Coroutine[Any, Any, None]]


class Simulation:
    """Made for one plan; `run` once."""

    def __init__(self, plan: SimulationPlan, *, keeps_trace: bool = False) -> None:
        self._plan = plan
        self.world = World(plan.seed, keeps_trace=keeps_trace)
        self._network = SimNetwork(self.world)
        self._ensemble = _ensemble(plan, self.world) if plan.others else None
        self._history = SimulationHistory(self.world, self._stale_us_max())
        self._nodes = [self._node_of(number, machine) for number, machine in enumerate(plan.machines, 1)]
        self.addresses = tuple((node.host.address, KAFKA_PORT) for node in self._nodes)  # that clients know
        names = [_CHECKER, *(client.name for client in plan.clients)]
        self._hosts = {name: self._host_of(number, name) for number, name in enumerate(names, 1)}
        self._leaders = LeaderWatch()
        self._problems: list[str] = []  # of replicas
        self._running: dict[str, asyncio.Task[Any]] = {}
        self._clients: list[SimClient] = []

    def run(self) -> SimulationOutcome:
        errors = [*self._errors(), *self._problems]
        world = self.world
        for node in self._nodes:
            errors += [f"node failure: {sentence}" for sentence, _ in node.host.failures]
        for host in self._hosts.values():
            errors += [f"client failure: {sentence}" for sentence, _ in host.failures]
        # Nothing of it is left to the garbage collector, which would warn of coroutines that never began.
        for host in [*(node.host for node in self._nodes), *self._hosts.values()]:
            host.kill()
        happenings = len(self._history.happenings)
        return SimulationOutcome(self._plan, tuple(errors), world.trace_hash, world.now_us, happenings, world.lines)

    def _errors(self) -> Iterator[str]:
        """Run it; the sentences of what went wrong. What comes after a phase without an end would say nothing."""
        for node in self._nodes:
            node.start()
        if not self._until(self._prepare, QUIET_S_MAX):
            yield "the topics could not be created"
            return
        self._check_nodes()
        self._let_faults_happen()
        yield from self._failed_clients()
        questions = self._questions()
        share_s_max = FINISH_S_MAX * (1 + len(self._plan.share_groups))
        for ask, seconds_max, problem in (
            (questions.read_everything, QUIET_S_MAX, "the final read did not end"),
            (questions.see_offsets, QUIET_S_MAX, "the groups' offsets were not found"),
            (questions.look_at_topics, QUIET_S_MAX, "the topics of administrators were not found"),
            (questions.look_at_kept_groups, QUIET_S_MAX, "the groups of administrators were not found"),
            (questions.look_up_times, QUIET_S_MAX, "the look-ups by time did not end"),
            (questions.finish_share_groups, share_s_max, "the share groups did not come to their end"),
        ):
            if not self._until(ask, seconds_max):
                yield problem
                return
        # What was sent while a host could not be reached is on its way again: an end of a connection, above all.
        self.world.run(self.world.now_us + RESEND_US_MAX)
        if self._plan.others:
            yield from self._replicas_differ()
        for check in CHECKS:
            yield from check(self._history)

    def _check_nodes(self) -> None:
        """Look at the nodes' insides, now and every second until the end."""
        for node in self._nodes:
            node.check()
            if node.host.process is not None:
                self._problems += self._leaders.look(node.host.process.name, node.replicas)
        self.world.after(_SECOND_US, self._check_nodes)

    def _let_faults_happen(self) -> None:
        """The faulty time, then the quiet time in which clients finish."""
        plan, world, begin_us = self._plan, self.world, self.world.now_us
        for client in plan.clients:
            self._start(client)
        victims = [client.name for client in plan.clients] or [_CHECKER]
        complain = self._problems.append
        faults = FaultInjector(world, self._network, self._nodes, victims, self._ensemble, complain)
        for fault in plan.faults:
            world.at(begin_us + fault.at_us, lambda fault=fault: faults.begin(fault))  # type: ignore[misc]
        world.run(begin_us + plan.lasts_us)
        # From here on nothing is broken: what a client still has to do it must be able to do.
        faults.heal()
        for each in self._clients:
            each.stop()
        if plan.others and not self._until(self._questions().reach_everything, PROGRESS_S_MAX):
            self._problems.append(f"not everything is served {PROGRESS_S_MAX} s after all faults were over")
        world.run(world.now_us + QUIET_S_MAX * _SECOND_US, lambda: all(task.done() for task in self._running.values()))

    def _stale_us_max(self) -> int | None:
        return None if self._ensemble is None else self._ensemble.session_ms * 1_000 + LATE_READ_US

    def _questions(self) -> FinalQuestions:
        return FinalQuestions(self._plan, self._clients, self._checker)

    def _replicas_differ(self) -> Iterator[str]:
        """Compare all replicas until they are the same, or for too long."""
        found: list[str] = []
        for _ in range(REST_S_MAX):
            contents = {node.number: self._read_logs(node) for node in self._nodes}
            kept_by = holders(chain.from_iterable(node.replicas.values() for node in self._nodes))
            found = [*differences(contents, kept_by)]
            if not found:
                return
            self.world.run(self.world.now_us + _SECOND_US)
        yield from found

    def _read_logs(self, node: SimNode) -> Mapping[LogKey, LogContent]:
        process = node.host.process
        if process is None:
            return {}
        task = process.run(lambda: read_logs(node.partitions))
        self.world.run(self.world.now_us + _SECOND_US, task.done)
        return task.result() if task.done() else {}

    def _failed_clients(self) -> Iterator[str]:
        for name, task in self._running.items():
            if not task.done():
                yield f"{name} has not finished {QUIET_S_MAX} s after all faults were over"
            elif task.exception() is not None:
                yield f"{name} failed: {task.exception()!r}"

    def _until(self, work: _Work, seconds_max: int) -> bool:
        """Run the world until this coroutine function of the checker's is done."""
        process = self._hosts[_CHECKER].process
        assert process is not None
        task = process.run(work)
        self.world.run(self.world.now_us + seconds_max * _SECOND_US, task.done)
        if task.done():
            task.result()
        return task.done()

    async def _prepare(self) -> None:
        """Create the plan's topics, and configure its share groups."""
        admin = KafkaClient(self._checker("admin"))
        for topic in self._plan.topics:
            configs = [CreatableTopicConfig(name, value) for name, value in topic.configs]
            request = CreateTopicsRequest(
                [CreatableTopic(topic.name, topic.partitions, admin.replication_factor, [], configs)]
            )
            await admin.ask_until_done(request, 7, lambda answer: answer.topics[0].error_code in _CREATED)
        for group in self._plan.share_groups:
            await configure_share_group(admin, group)

    def _checker(self, what: str) -> ClientContext:
        """The surroundings of a client of the checker, for this purpose."""
        return self._context(_CHECKER, self.world.random(what))

    def _context(self, name: str, random: Random) -> ClientContext:
        return ClientContext(name, self._hosts[name], self.addresses, self._history, random)

    def _start(self, plan: planned.PlannedClient) -> None:
        process = self._hosts[plan.name].process
        assert process is not None
        context = self._context(plan.name, self.world.random(f"client {plan.name}"))
        client = CLIENTS[type(plan)](context, plan)
        self._clients.append(client)
        self._running[plan.name] = process.run(client.run)

    def _node_of(self, number: int, machine: PlannedMachine) -> SimNode:
        plan = self._plan
        host = SimHost(self.world, self._network, f"node-{number}", f"127.1.0.{number}")
        host.drift_ppm = machine.drift_ppm
        return SimNode(
            host,
            _settings(plan, host.address, machine),
            dict(plan.node.journal),
            NodeDesk(self._history, plan.node) if plan.node.service_instances else None,
            (plan.node.state_garbage_bytes, plan.node.state_slice_bytes),
            machine.flush_us,
            number,
            self._ensemble,
        )

    def _host_of(self, number: int, name: str) -> SimHost:
        host = SimHost(self.world, self._network, name, f"127.2.{number // 250}.{number % 250 + 1}")
        host.start()
        return host


def _ensemble(plan: SimulationPlan, world: World) -> MemoryEnsemble:
    """The coordinator of a cluster, in the world's time."""
    session_ms = int(dict(plan.node.settings)["cluster.session_timeout_ms"])
    return MemoryEnsemble(
        lambda delay_ms, work: world.after(delay_ms * 1_000, work), world.random("ensemble"), session_ms=session_ms
    )


def _settings(plan: SimulationPlan, address: str, machine: PlannedMachine) -> Settings:
    flags: dict[str, str | tuple[str, ...]] = {
        **dict(plan.node.settings),
        **dict(machine.settings),
        "kafka.listen": f"{address}:{KAFKA_PORT}",
        "node.data_dir": "/data",
    }
    if plan.others:
        flags |= {"cluster.coordinator": "memory", "cluster.listen": f"{address}:{PEER_PORT}"}
    if plan.node.service_instances:
        flags |= {
            "tcp_bridge.listen": f"{address}:{BRIDGE_PORT}",
            "bridge.permit_in": (".*",),
            "bridge.permit_out": (".*",),
        }
    return dataclasses.replace(loader.load(environment={}, flags=flags, flag_source="plan").settings)
