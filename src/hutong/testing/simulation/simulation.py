"""One simulation: start everything, let faults happen, heal, read everything, check.

Strategy: three times follow each other. The faulty time has the plan's length. In the quiet time nothing is broken any
more, and every client must finish what it began within `QUIET_S_MAX`. Then a reader that nobody disturbed reads all
partitions, and the checkers compare.
"""

import asyncio
import dataclasses
from dataclasses import dataclass
from typing import Any, Final

from hutong.server.configuration import loader
from hutong.server.configuration.settings import Settings
from hutong.testing.simulation.checkers.compaction_checker import check_compaction
from hutong.testing.simulation.checkers.group_checker import check_groups
from hutong.testing.simulation.checkers.log_checker import check_log
from hutong.testing.simulation.checkers.share_checker import check_share_groups
from hutong.testing.simulation.checkers.topic_checker import check_topics
from hutong.testing.simulation.checkers.transaction_checker import check_transactions
from hutong.testing.simulation.clients.admin import SimAdmin, look_at_topic
from hutong.testing.simulation.clients.classic_member import SimClassicMember
from hutong.testing.simulation.clients.client import KafkaClient, SimClient
from hutong.testing.simulation.clients.consumer_member import SimConsumerMember
from hutong.testing.simulation.clients.group_consumer import see_all_offsets
from hutong.testing.simulation.clients.keyed import SimKeyedProducer, SimKeyReader
from hutong.testing.simulation.clients.producer import SimProducer
from hutong.testing.simulation.clients.reader import SimReader
from hutong.testing.simulation.clients.share_consumer import SimShareConsumer
from hutong.testing.simulation.clients.share_groups import FINISH_S_MAX, configure_share_group, finish_share_group
from hutong.testing.simulation.clients.transactional import SimTransactionalProducer
from hutong.testing.simulation.faults import FaultInjector
from hutong.testing.simulation.history import SimulationHistory
from hutong.testing.simulation.hosts.host import SimHost
from hutong.testing.simulation.network.network import SimNetwork
from hutong.testing.simulation.nodes import KAFKA_PORT, SimNode
from hutong.testing.simulation.plan import (
    KEPT_FOR_GOOD_MS,
    TRANSACTIONAL,
    PlannedClient,
    PlannedMember,
    SimulationPlan,
)
from hutong.testing.simulation.world import World
from hutong.wire.kafka.apis.k19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from hutong.wire.kafka.batch.compression import Compression
from hutong.wire.kafka.error_codes import ErrorCode

QUIET_S_MAX: Final = 60
_SECOND_US: Final = 1_000_000
_CHECKER: Final = "checker"
MEMBERS: Final = {"classic member": SimClassicMember, "consumer member": SimConsumerMember}
_CREATED: Final = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


@dataclass(frozen=True, slots=True)
class SimulationOutcome:
    """The result of a simulation: `errors` is empty where every promise was kept."""

    plan: SimulationPlan
    errors: tuple[str, ...]
    trace_hash: str
    virtual_us: int
    happenings: int
    lines: list[tuple[int, str, str]]


class Simulation:
    """Made for one plan; `run` once."""

    def __init__(self, plan: SimulationPlan, *, keeps_trace: bool = False) -> None:
        self._plan = plan
        self.world = World(plan.seed, keeps_trace=keeps_trace)
        self._network = SimNetwork(self.world)
        self._history = SimulationHistory(self.world)
        host = SimHost(self.world, self._network, "node-1", "127.1.0.1")
        host.drift_ppm = plan.node.drift_ppm
        self._nodes = [SimNode(host, _settings(plan), dict(plan.node.journal))]
        self._hosts = {name: self._host_of(number, name) for number, name in enumerate(self._client_names(), 1)}
        self._running: dict[str, asyncio.Task[Any]] = {}
        self._clients: list[SimClient] = []

    def run(self) -> SimulationOutcome:
        errors = self._run()
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

    def _run(self) -> list[str]:
        plan, world = self._plan, self.world
        for node in self._nodes:
            node.start()
        if not self._until("create", self._create_topics(), QUIET_S_MAX):
            return ["the topics could not be created"]
        begin_us = world.now_us
        for client in plan.clients:
            self._start(client)
        faults = FaultInjector(
            world, self._network, self._nodes, [client.name for client in plan.clients] or [_CHECKER]
        )
        for fault in plan.faults:
            world.at(begin_us + fault.at_us, lambda fault=fault: faults.begin(fault))  # type: ignore[misc]
        world.run(begin_us + plan.lasts_us)
        # From here on nothing is broken: what a client still has to do it must be able to do.
        faults.heal()
        for each in self._clients:
            each.stop()
        world.run(world.now_us + QUIET_S_MAX * _SECOND_US, lambda: all(task.done() for task in self._running.values()))
        errors = self._failed_clients()
        if not self._until("read", self._read_everything(), QUIET_S_MAX):
            return [*errors, "the final read did not end"]
        if not self._until("offsets", self._see_offsets(), QUIET_S_MAX):
            return [*errors, "the groups' offsets were not found"]
        if not self._until("topics", self._look_at_topics(), QUIET_S_MAX):
            return [*errors, "the topics of administrators were not found"]
        if not self._until("share groups", self._finish_share_groups(), FINISH_S_MAX * (1 + len(plan.share_groups))):
            return [*errors, "the share groups did not come to their end"]
        checks = (check_log, check_groups, check_share_groups, check_topics, check_compaction, check_transactions)
        return [*errors, *(error for check in checks for error in check(self._history))]

    def _failed_clients(self) -> list[str]:
        errors = []
        for name, task in self._running.items():
            if not task.done():
                errors.append(f"{name} has not finished {QUIET_S_MAX} s after all faults were over")
            elif task.exception() is not None:
                errors.append(f"{name} failed: {task.exception()!r}")
        return errors

    def _until(self, name: str, work: Any, seconds_max: int) -> bool:
        """Run the world until this coroutine of the checker's is done."""
        process = self._hosts[_CHECKER].process
        assert process is not None
        task = process.run(lambda: work)
        self.world.run(self.world.now_us + seconds_max * _SECOND_US, task.done)
        if task.done():
            task.result()
        return task.done()

    async def _create_topics(self) -> None:
        admin = self._checker("admin")
        for topic in self._plan.topics:
            configs = [CreatableTopicConfig(name, value) for name, value in topic.configs]
            request = CreateTopicsRequest([CreatableTopic(topic.name, topic.partitions, 1, [], configs)])
            await admin.ask_until_done(request, 7, lambda answer: answer.topics[0].error_code in _CREATED)
        for group in self._plan.share_groups:
            await configure_share_group(admin, group)

    async def _read_everything(self) -> None:
        for topic in self._plan.topics:
            for index in range(topic.partitions):
                random = self.world.random(f"final {topic.name} {index}")
                common = (_CHECKER, self._hosts[_CHECKER], self._place, self._history, random, (topic.name, index))
                # Of a compacted topic most records may be gone: what matters are its keys.
                if topic.is_compacted:
                    keeps_tombstones = ("delete.retention.ms", KEPT_FOR_GOOD_MS) in topic.configs
                    await SimKeyReader(*common, is_committed=False).read_keys(keeps_tombstones=keeps_tombstones)
                    continue
                for is_committed in (False, True):
                    await SimReader(*common, is_committed=is_committed).read_all()

    async def _see_offsets(self) -> None:
        """Ask for the committed offsets of all groups, as an administrator does."""
        partitions = {topic.name: topic.partitions for topic in self._plan.topics}
        groups = {(each.group, each.topic): None for each in self._plan.clients if isinstance(each, PlannedMember)}
        for group, topic in groups:
            await see_all_offsets(self._checker("offsets"), group, topic, partitions[topic])

    async def _look_at_topics(self) -> None:
        """Look at the topics that administrators have left, now that nothing disturbs the answers."""
        for client in self._clients:
            for topic in client.topics if isinstance(client, SimAdmin) else ():
                while await look_at_topic(self._checker(f"look at {topic}"), topic) is None:
                    pass

    async def _finish_share_groups(self) -> None:
        partitions = {topic.name: topic.partitions for topic in self._plan.topics}
        for group in self._plan.share_groups:
            random = self.world.random(f"last of {group.name}")
            common = (_CHECKER, self._hosts[_CHECKER], self._place, self._history, random)
            member = SimShareConsumer(*common, group.topic, group.name, 0, always_accepts=True)
            await finish_share_group(self._checker("standing"), member, group, partitions[group.topic])

    def _checker(self, what: str) -> KafkaClient:
        random = self.world.random(what)
        return KafkaClient(_CHECKER, self._hosts[_CHECKER], self._place, self._history, random)

    def _start(self, plan: PlannedClient) -> None:
        host = self._hosts[plan.name]
        assert host.process is not None
        client = self._client_of(plan, host)
        self._clients.append(client)
        self._running[plan.name] = host.process.run(client.run)

    def _client_of(self, plan: PlannedClient, host: SimHost) -> SimClient:
        random = self.world.random(f"client {plan.name}")
        common = (plan.name, host, self._place, self._history, random, (plan.topic, plan.partition))
        if isinstance(plan, PlannedMember):
            return MEMBERS[plan.kind](*common[:-1], plan)
        if plan.kind == "producer":
            return SimProducer(*common, plan.option, plan.pause_ms / 1_000, Compression(plan.codec))
        if plan.kind == "keyed producer":
            options = {"acks": plan.option, "pause_s": plan.pause_ms / 1_000, "codec": Compression(plan.codec)}
            return SimKeyedProducer(*common, keys=plan.keys, **options)
        if plan.kind == TRANSACTIONAL:
            return SimTransactionalProducer(
                *common[:-1],
                plan.topic,
                partitions=next(topic.partitions for topic in self._plan.topics if topic.name == plan.topic),
                transactional_id=f"books-{plan.option}",
                timeout_ms=random.choice((1_000, 3_000, 10_000)),
                pause_s=plan.pause_ms / 1_000,
            )
        if plan.kind == "admin":
            return SimAdmin(*common[:-1], plan.pause_ms / 1_000)
        if plan.kind == "share member":
            group = self._plan.share_groups[plan.option].name
            return SimShareConsumer(*common[:-1], plan.topic, group, plan.pause_ms / 1_000)
        return SimReader(*common, is_committed=bool(plan.option))

    @property
    def _place(self) -> tuple[str, int]:
        return self._nodes[0].host.address, KAFKA_PORT

    def _client_names(self) -> list[str]:
        return [_CHECKER, *(client.name for client in self._plan.clients)]

    def _host_of(self, number: int, name: str) -> SimHost:
        host = SimHost(self.world, self._network, name, f"127.2.{number // 250}.{number % 250 + 1}")
        host.start()
        return host


def _settings(plan: SimulationPlan) -> Settings:
    flags = {**dict(plan.node.settings), "kafka.listen": f"127.1.0.1:{KAFKA_PORT}", "node.data_dir": "/data"}
    return dataclasses.replace(loader.load(environment={}, flags=flags, flag_source="plan").settings)
