"""The clients of a seed's plan, kind by kind."""

import dataclasses
from collections.abc import Sequence
from random import Random
from typing import Final

from hutong.testing.simulation.plan.clients import (
    PlannedAdmin,
    PlannedClassicMember,
    PlannedClient,
    PlannedConsumerMember,
    PlannedKeeper,
    PlannedKeyedProducer,
    PlannedKeyedTeller,
    PlannedMember,
    PlannedProcessor,
    PlannedProducer,
    PlannedReader,
    PlannedShareMember,
    PlannedTransactionalProducer,
)
from hutong.testing.simulation.plan.plan import PlannedShareGroup, PlannedTopic
from hutong.wire.kafka.batch.compression import Compression

_PRODUCERS_MAX: Final = 4
_READERS_MAX: Final = 3
_TELLERS_MAX: Final = 3
_MEMBERS_MAX: Final = 4
_SHARE_MEMBERS_MAX: Final = 4
_GROUPS_MAX: Final = 2
_PROCESSORS_MAX: Final = 3
_TRANSACTION_TIMEOUTS_MS: Final = (1_000, 3_000, 10_000)
_MEMBERS_OF_GROUPS: Final[tuple[tuple[type[PlannedMember], ...], ...]] = (
    (PlannedClassicMember,),
    (PlannedClassicMember,),
    (PlannedConsumerMember,),
    (PlannedConsumerMember,),
    # Its members change from one protocol to the other one by one (KIP-848).
    (PlannedClassicMember, PlannedConsumerMember),
)


def writers(
    random: Random,
    topic: PlannedTopic,
    count: int,
    pauses_ms: Sequence[int],
    *,
    partitions: int | None = None,
    is_uniform: bool = False,
) -> list[PlannedClient]:
    """Producers that wait for all replicas, dealt over the topic's first `partitions`: over all by default."""
    return [
        PlannedProducer(
            name=f"producer-{number}",
            topic=topic.name,
            partition=number % (partitions or topic.partitions),
            acks=-1,
            pause_ms=random.choice(pauses_ms),
            is_uniform=is_uniform,
        )
        for number in range(count)
    ]


def producers_and_readers(random: Random, topic: PlannedTopic) -> list[PlannedClient]:
    clients: list[PlannedClient] = [
        PlannedProducer(
            name=f"producer-{number}",
            topic=topic.name,
            partition=random.randrange(topic.partitions),
            acks=random.choice((-1, -1, 1)),
            # The shortest keeps several requests in flight, the longest meets idle timeouts.
            pause_ms=random.choice((50, 500, 500, 2_000)),
        )
        for number in range(random.randint(1, _PRODUCERS_MAX))
    ]
    clients += [
        PlannedReader(
            name=f"reader-{number}",
            topic=topic.name,
            partition=random.randrange(topic.partitions),
            is_committed=random.choice((False, True)),
        )
        for number in range(random.randint(1, _READERS_MAX))
    ]
    return clients


def with_codecs(random: Random, clients: Sequence[PlannedClient]) -> list[PlannedClient]:
    """Let some producers compress their batches."""
    # Most do not: what a batch holds makes no difference to most code.
    codecs = {client.name: Compression(random.choice((0, 0, 0, 0, 1, 2, 3, 4))) for client in clients}
    return [
        dataclasses.replace(client, codec=codecs[client.name]) if isinstance(client, PlannedProducer) else client
        for client in clients
    ]


def with_sizes(random: Random, clients: Sequence[PlannedClient]) -> list[PlannedClient]:
    """Let all producers of some plans send batches of one size to one partition."""
    if random.random() >= 0.3:
        return [*clients]
    # What a crash has left of one producer's batch may follow another's at once, and be taken for its own. Producers of
    # compacted topics stay as they are: their records have names in headers, of other sizes.
    return [
        dataclasses.replace(client, is_uniform=True, partition=0) if type(client) is PlannedProducer else client
        for client in clients
    ]


def with_haste(random: Random, clients: Sequence[PlannedClient]) -> list[PlannedClient]:
    """Let some producers go on at the next leader while requests to the last one are open."""
    # With acks=1 the next leader may be without what the last one has acknowledged, and then nothing fits. Those of
    # compacted topics stay as they are: a batch that was compacted away is not known to have been stored.
    return [
        dataclasses.replace(client, sends_ahead=random.random() < 0.5)
        if type(client) is PlannedProducer and client.acks == -1
        else client
        for client in clients
    ]


def members(random: Random, topic: PlannedTopic) -> list[PlannedClient]:
    """Members of consumer groups."""
    drawn: list[PlannedClient] = []
    for number in range(_groups_total(random)):
        classes, is_committed = random.choice(_MEMBERS_OF_GROUPS), random.choice((False, True))
        session_ms, rebalance_ms = random.choice((2_000, 4_000, 6_000)), random.choice((1_000, 3_000, 6_000))
        # Groups have static members or none, seldom both.
        statics = random.choice((0, 0, 0.7))
        for place in range(random.randint(1, _MEMBERS_MAX)):
            instance = f"instance-{number}-{random.choice((place, place, place // 2))}"
            drawn.append(
                random.choice(classes)(
                    name=f"member-{number}-{place}",
                    topic=topic.name,
                    pause_ms=random.choice((20, 200, 1_000)),
                    group=f"group-{number}",
                    is_committed=is_committed,
                    session_ms=session_ms,
                    rebalance_ms=rebalance_ms,
                    instance=instance if random.random() < statics else "",
                    may_stall=random.random() < 0.5,
                    notices_silence=random.random() < 0.5,
                )
            )
    return drawn


def share_groups(random: Random, topic: PlannedTopic) -> tuple[list[PlannedShareGroup], list[PlannedClient]]:
    """Share groups and their members."""
    groups: list[PlannedShareGroup] = []
    drawn: list[PlannedClient] = []
    for number in range(_groups_total(random)):
        # The least that Kafka's defaults allow, and the default (KIP-932).
        lock_ms, limit = random.choice((15_000, 30_000)), random.choice((2, 5, 10))
        group = PlannedShareGroup(f"tasks-{number}", topic.name, lock_ms, limit)
        groups.append(group)
        for place in range(random.randint(1, _SHARE_MEMBERS_MAX)):
            name, pause_ms = f"worker-{number}-{place}", random.choice((10, 100, 1_000))
            drawn.append(PlannedShareMember(name=name, topic=topic.name, pause_ms=pause_ms, group=group.name))
    return groups, drawn


def admins(random: Random) -> list[PlannedClient]:
    pauses_ms = [random.choice((20, 200, 1_000)) for _ in range(_groups_total(random))]
    return [PlannedAdmin(name=f"admin-{place}", pause_ms=pause_ms) for place, pause_ms in enumerate(pauses_ms)]


def of_bounded_topics(random: Random, topics: Sequence[PlannedTopic]) -> list[PlannedClient]:
    """Producers and readers of topics that lose records."""
    drawn: list[PlannedClient] = []
    for topic in topics:
        if topic.is_compacted:
            drawn += [
                PlannedKeyedProducer(
                    name=f"keeper-{number}",
                    topic=topic.name,
                    partition=0,
                    acks=-1,
                    pause_ms=random.choice((50, 500)),
                    # One: every record but the last is garbage. Fifty: some keys are set once.
                    keys=random.choice((1, 5, 50)),
                )
                for number in range(random.randint(1, 2))
            ]
        else:
            pause_ms = random.choice((50, 500))
            name = f"producer-of-{topic.name}"
            drawn.append(PlannedProducer(name=name, topic=topic.name, partition=0, acks=-1, pause_ms=pause_ms))
            name = f"reader-of-{topic.name}"
            drawn.append(PlannedReader(name=name, topic=topic.name, partition=0, is_committed=False))
    return drawn


def tellers(random: Random, topics: Sequence[PlannedTopic]) -> list[PlannedClient]:
    """Transactional producers, and readers of what they write. Two instances may have one transactional id."""
    drawn: list[PlannedClient] = []
    for topic in topics:
        drawn += [
            PlannedTransactionalProducer(
                name=f"teller-{number}",
                topic=topic.name,
                partitions=topic.partitions,
                pause_ms=random.choice((20, 200, 1_000)),
                transactional_id=f"books-{random.choice((0, 0, 1))}",
                # Shorter than some transactions: the coordinator aborts those.
                timeout_ms=random.choice(_TRANSACTION_TIMEOUTS_MS),
                transaction_version=random.choice((1, 2)),
            )
            for number in range(random.randint(1, _TELLERS_MAX))
        ]
        drawn += [
            PlannedReader(
                name=f"auditor-{'committed' if is_committed else 'all'}",
                topic=topic.name,
                partition=random.randrange(topic.partitions),
                is_committed=is_committed,
            )
            for is_committed in (False, True)
        ]
    return drawn


def keyed_tellers(random: Random, topics: Sequence[PlannedTopic]) -> list[PlannedClient]:
    """Transactional producers of compacted topics."""
    keys = random.choice((1, 5, 50))
    return [
        PlannedKeyedTeller(
            name=f"banker-{number}",
            topic=topic.name,
            partitions=topic.partitions,
            pause_ms=random.choice((20, 200)),
            transactional_id=f"bank-{random.choice((0, 0, 1))}",
            timeout_ms=random.choice(_TRANSACTION_TIMEOUTS_MS),
            transaction_version=random.choice((1, 2)),
            keys=keys,
        )
        for topic in topics
        for number in range(random.randint(1, _TELLERS_MAX))
    ]


def keepers(random: Random, topic: PlannedTopic) -> list[PlannedClient]:
    """Administrators of groups without members."""
    pauses_ms = [random.choice((20, 200)) for _ in range(_groups_total(random))]
    return [
        PlannedKeeper(name=f"keeper-of-groups-{place}", topic=topic.name, pause_ms=pause_ms)
        for place, pause_ms in enumerate(pauses_ms)
    ]


def processors(random: Random, sources: Sequence[PlannedTopic], targets: Sequence[PlannedTopic]) -> list[PlannedClient]:
    """Processors of one source, and a reader of each target. Those of one partition have one transactional id."""
    drawn: list[PlannedClient] = []
    for target in targets:
        source = random.choice(sources)
        for number in range(random.randint(1, _PROCESSORS_MAX)):
            index = random.randrange(source.partitions)
            drawn.append(
                PlannedProcessor(
                    name=f"processor-{number}",
                    topic=target.name,
                    partition=random.randrange(target.partitions),
                    pause_ms=random.choice((20, 200, 1_000)),
                    transactional_id=f"{source.name}-{index}",
                    timeout_ms=random.choice(_TRANSACTION_TIMEOUTS_MS),
                    transaction_version=random.choice((1, 2)),
                    source=source.name,
                    source_partition=index,
                    group=f"processors-of-{source.name}",
                )
            )
        drawn.append(PlannedReader(name=f"reader-of-{target.name}", topic=target.name, partition=0, is_committed=True))
    return drawn


def _groups_total(random: Random) -> int:
    return random.choice((0, 0, 1, 1, _GROUPS_MAX))
