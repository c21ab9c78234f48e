"""The values of a plan that somebody may have edited: kinds that exist, times and numbers within bounds."""

import dataclasses
from collections.abc import Iterator
from typing import Final

from hutong.journal.settings import JournalSettings
from hutong.rpc.delivery.caller.retry import Pace
from hutong.rpc.options import RETRIES_MAX
from hutong.testing.simulation.plan.clients import (
    PlannedBusMember,
    PlannedCaller,
    PlannedClient,
    PlannedPartitionClient,
    PlannedProcessor,
    PlannedShareMember,
    PlannedTopicClient,
    PlannedTransactionalClient,
    PlannedTransactionalProducer,
)
from hutong.testing.simulation.plan.draw_cluster import NODES_MAX
from hutong.testing.simulation.plan.drawing import MINUTE_US
from hutong.testing.simulation.plan.faults import FAMILIES
from hutong.testing.simulation.plan.plan import SimulationPlan

TIME_US_MAX: Final = 60 * MINUTE_US
CLIENTS_MAX: Final = 1_000
INSTANCES_MAX: Final = 100
FAULTS_MAX: Final = 10_000
TOPICS_MAX: Final = 100
PARTITIONS_MAX: Final = 100
KEYS_MAX: Final = 1_000_000
FLUSH_US_MAX: Final = 10_000_000
DRIFT_PPM_MAX: Final = 100_000
TOGETHER_MAX: Final = 1_000  # calls, or messages
PAUSE_MS_MAX: Final = Pace().pause_ms_max
PADDING_BYTES_MAX: Final = 64 << 10
PADDING_CHARACTERS_MAX: Final = 1 << 20
STREAM_ITEMS_MAX: Final = 1_000_000
_BOUNDS_OF_NUMBERS: Final = {
    "keys": (1, KEYS_MAX),
    "partitions": (1, PARTITIONS_MAX),
    "nodes": (1, NODES_MAX),
    "replicas": (1, NODES_MAX),
    "cancelled": (0, 1),
    "batches_together": (1, PARTITIONS_MAX),
    "padding_bytes": (0, PADDING_BYTES_MAX),
    "calls_together": (1, TOGETHER_MAX),
    "messages_together": (1, TOGETHER_MAX),
    "timeout_ms": (1, TIME_US_MAX // 1_000),
    "retries": (0, RETRIES_MAX),
    "work_ms": (0, TIME_US_MAX // 1_000),
    "not_reading_ms": (0, TIME_US_MAX // 1_000),
    "padding_characters": (0, PADDING_CHARACTERS_MAX),
    "stream_items": (0, STREAM_ITEMS_MAX),
    "first_pause_ms": (1, PAUSE_MS_MAX),
    "first_patience_ms": (1, PAUSE_MS_MAX),
}
"""Of the numbers of clients, by their names."""
_KINDS: Final = frozenset(kind for family in FAMILIES.values() for kind in family)
_OF_SEVERAL: Final = frozenset((*FAMILIES["cluster"], *FAMILIES["aimed"]))  # faults
_BOUNDS_OF_JOURNALS: Final = frozenset(each.name for each in dataclasses.fields(JournalSettings))


def check_plan(plan: SimulationPlan) -> None:
    """Raises ValueError with the first value that no simulation could have."""
    problem = next(_problems(plan), None)
    if problem is not None:
        raise ValueError(problem)


def _problems(plan: SimulationPlan) -> Iterator[str]:
    if not 0 < plan.lasts_us <= TIME_US_MAX:
        yield f"plan.lasts_us is not from 1 to {TIME_US_MAX}"
    for field, most in (("topics", TOPICS_MAX), ("clients", CLIENTS_MAX), ("faults", FAULTS_MAX)):
        if len(getattr(plan, field)) > most:
            yield f"plan.{field} has more than {most} parts"
    yield from _problems_of_the_node(plan)
    names = [client.name for client in plan.clients]
    if len(set(names)) < len(names):
        yield "two clients have one name"
    yield from _problems_of_topics_and_faults(plan)
    for client in plan.clients:
        yield from _problems_of_client(client, plan)
        yield from _problems_of_numbers(client)
    yield from _problems_of_services(plan)


def _problems_of_the_node(plan: SimulationPlan) -> Iterator[str]:
    if plan.nodes > NODES_MAX:
        yield f"the plan has more than {NODES_MAX} nodes"
    for number, machine in enumerate(plan.machines):
        where = f"plan.others[{number - 1}]" if number else "plan.node"
        if abs(machine.drift_ppm) > DRIFT_PPM_MAX:
            yield f"{where}.drift_ppm is beyond {DRIFT_PPM_MAX}"
        if not 0 <= machine.flush_us <= FLUSH_US_MAX:
            yield f"{where}.flush_us is not from 0 to {FLUSH_US_MAX}"
    if plan.node.state_garbage_bytes < 0 or plan.node.state_slice_bytes < 1:
        yield "plan.node has bounds of state topics that are too small"
    for name, value in plan.node.journal:
        if name not in _BOUNDS_OF_JOURNALS or value < 0:
            yield f"plan.node.journal has no bound {name} of {value}"


def _problems_of_topics_and_faults(plan: SimulationPlan) -> Iterator[str]:
    for topic in plan.topics:
        if not 1 <= topic.partitions <= PARTITIONS_MAX:
            yield f"the topic {topic.name} does not have from 1 to {PARTITIONS_MAX} partitions"
    for fault in plan.faults:
        if fault.kind not in _KINDS:
            yield f"there is no fault {fault.kind}"
        if fault.kind in _OF_SEVERAL and not plan.others:
            yield f"a fault {fault.kind} needs several nodes"
        if not (0 <= fault.at_us <= TIME_US_MAX and 0 <= fault.lasts_us <= TIME_US_MAX):
            yield f"the time of a fault {fault.kind} is not from 0 to {TIME_US_MAX}"


def _problems_of_client(client: PlannedClient, plan: SimulationPlan) -> Iterator[str]:
    partitions = {topic.name: topic.partitions for topic in plan.topics}
    if not 0 <= client.pause_ms <= TIME_US_MAX // 1_000:
        yield f"the pause of the client {client.name} is out of bounds"
    if isinstance(client, PlannedTopicClient) and client.topic not in partitions:
        yield f"the client {client.name} has a topic that the plan does not have"
        return
    if isinstance(client, PlannedPartitionClient) and not 0 <= client.partition < partitions[client.topic]:
        yield f"the client {client.name} has a partition that its topic does not have"
    if isinstance(client, PlannedTransactionalProducer) and not 1 <= client.partitions <= partitions[client.topic]:
        yield f"the client {client.name} has partitions that its topic does not have"
    if isinstance(client, PlannedProcessor):
        if not 0 <= client.source_partition < partitions.get(client.source, 0):
            yield f"the client {client.name} has a source that the plan does not have"
        if not 0 <= client.partition < partitions[client.topic]:
            yield f"the client {client.name} has a partition that its topic does not have"
    if isinstance(client, PlannedTransactionalClient) and client.transaction_version not in (1, 2):
        yield f"the client {client.name} does not have the transaction version 1 or 2"
    if isinstance(client, PlannedShareMember) and client.group not in {group.name for group in plan.share_groups}:
        yield f"the client {client.name} has a share group that the plan does not have"


def _problems_of_services(plan: SimulationPlan) -> Iterator[str]:
    if not 0 <= plan.node.service_instances <= INSTANCES_MAX:
        yield f"plan.node.service_instances is not from 0 to {INSTANCES_MAX}"
    for client in plan.clients:
        if isinstance(client, PlannedCaller | PlannedBusMember):
            if not plan.node.service_instances:
                yield f"the client {client.name} calls a service that the node does not have"
            if isinstance(client, PlannedCaller) and client.is_remembered and not plan.node.remembers_calls:
                yield f"the client {client.name} asks for a memory that the service does not have"


def _problems_of_numbers(client: PlannedClient) -> Iterator[str]:
    for name, (least, most) in _BOUNDS_OF_NUMBERS.items():
        if not least <= getattr(client, name, least) <= most:
            yield f"{name} of the client {client.name} is not from {least} to {most}"
