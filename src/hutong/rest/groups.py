"""Consumer groups of the v3 API: members, assignments and lag.

Decides nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import OffsetSpec

from hutong.rest.limits import CALL_S_MAX
from hutong.rest.resources import Resource, link, listed, related, resource
from hutong.web.answers import WebAnswer, WebRefusal, json
from hutong.web.routes import WebRoute

if TYPE_CHECKING:
    from hutong.rest.accounts import Account
    from hutong.rest.gateway import Gateway
    from hutong.web.requests import WebRequest

Place = tuple[str, int]


class Lag(NamedTuple):
    """The distance of a group from the end of one partition. `member` is None where nobody reads it."""

    place: Place
    committed: int
    end: int
    member: Any

    @property
    def records(self) -> int:
        return max(0, self.end - self.committed)


class GroupsV3:
    """The routes to groups."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def routes(self) -> list[WebRoute]:
        all_groups = "/v3/clusters/{cluster}/consumer-groups"
        one = f"{all_groups}/{{group}}"
        return [
            WebRoute("GET", all_groups, self.list_groups),
            WebRoute("GET", one, self.show),
            WebRoute("GET", f"{one}/consumers", self.list_consumers),
            WebRoute("GET", f"{one}/consumers/{{consumer}}/assignments", self.list_assignments),
            WebRoute("GET", f"{one}/lags", self.list_lags),
            WebRoute("GET", f"{one}/lag-summary", self.summarize_lag),
        ]

    async def list_groups(self, request: WebRequest) -> WebAnswer:
        account, cluster = await self._gateway.checked(request), request.text("cluster")
        ask = partial(account.admin.list_consumer_groups, request_timeout=CALL_S_MAX)
        found: Any = await self._gateway.blocking(lambda: ask().result(CALL_S_MAX))
        groups = [
            _group(cluster, each.group_id, state=_word(each.state), is_simple=each.is_simple_consumer_group)
            for each in sorted(found.valid, key=lambda each: each.group_id)
        ]
        return json(listed("ConsumerGroup", link(cluster, "consumer-groups"), groups))

    async def show(self, request: WebRequest) -> WebAnswer:
        account, cluster = await self._gateway.checked(request), request.text("cluster")
        found = await self._described(account, request.text("group"))
        facts = {
            "state": _word(found.state),
            "is_simple": found.is_simple_consumer_group,
            "partition_assignor": found.partition_assignor,
            "coordinator": None
            if found.coordinator is None
            else related(link(cluster, "brokers", found.coordinator.id)),
        }
        return json(_group(cluster, found.group_id, **facts))

    async def list_consumers(self, request: WebRequest) -> WebAnswer:
        account, cluster, group = await self._gateway.checked(request), request.text("cluster"), request.text("group")
        found = await self._described(account, group)
        consumers = [_consumer(cluster, group, member) for member in found.members]
        return json(listed("Consumer", link(cluster, "consumer-groups", group, "consumers"), consumers))

    async def list_assignments(self, request: WebRequest) -> WebAnswer:
        account, cluster, group = await self._gateway.checked(request), request.text("cluster"), request.text("group")
        wanted = request.text("consumer")
        members = (await self._described(account, group)).members
        member = next((each for each in members if each.member_id == wanted), None)
        if member is None:
            raise WebRefusal(404, f"Consumer {wanted[:200]} cannot be found.", 40403)
        path = link(cluster, "consumer-groups", group, "consumers", wanted, "assignments")
        assigned = [
            _of_partition("ConsumerAssignment", cluster, path, (each.topic, each.partition), consumer_group_id=group)
            for each in member.assignment.topic_partitions
        ]
        return json(listed("ConsumerAssignment", path, assigned))

    async def list_lags(self, request: WebRequest) -> WebAnswer:
        account, cluster, group = await self._gateway.checked(request), request.text("cluster"), request.text("group")
        path = link(cluster, "consumer-groups", group, "lags")
        lags = [
            _of_partition(
                "ConsumerLag",
                cluster,
                path,
                lag.place,
                consumer_group_id=group,
                current_offset=lag.committed,
                log_end_offset=lag.end,
                lag=lag.records,
                **_member(lag.member),
            )
            for lag in await self._lags(account, group)
        ]
        return json(listed("ConsumerLag", path, lags))

    async def summarize_lag(self, request: WebRequest) -> WebAnswer:
        account, cluster, group = await self._gateway.checked(request), request.text("cluster"), request.text("group")
        lags = await self._lags(account, group)
        if not lags:
            raise WebRefusal(404, f"Group {group[:200]} has committed nothing.", 40403)
        longest = max(lags, key=lambda lag: lag.records)
        topic, partition = longest.place
        path = link(cluster, "consumer-groups", group)
        summary = resource(
            "ConsumerGroupLagSummary",
            f"{path}/lag-summary",
            f"kafka={cluster}/consumer-group={group}/lag-summary",
            cluster_id=cluster,
            consumer_group_id=group,
            max_lag=longest.records,
            total_lag=sum([lag.records for lag in lags]),
            max_lag_topic_name=topic,
            max_lag_partition_id=partition,
            max_lag_partition=related(link(cluster, "topics", topic, "partitions", partition)),
            **{f"max_lag_{name}": value for name, value in _member(longest.member).items()},
        )
        return json(summary)

    async def _described(self, account: Account, group: str) -> Any:
        found = await self._gateway.one(partial(account.admin.describe_consumer_groups, [group]))
        # As Kafka does before KIP-1043: a group that is not there is dead.
        if _word(found.state) == "DEAD":
            raise WebRefusal(404, f"Group {group[:200]} cannot be found.", 40403)
        return found

    async def _lags(self, account: Account, group: str) -> list[Lag]:
        members = {
            (each.topic, each.partition): member
            for member in (await self._described(account, group)).members
            for each in member.assignment.topic_partitions
        }
        ask = partial(account.admin.list_consumer_group_offsets, [ConsumerGroupTopicPartitions(group)])
        offsets = (await self._gateway.one(ask)).topic_partitions
        committed = {(each.topic, each.partition): each.offset for each in offsets if each.offset >= 0}
        ends = await self._gateway.blocking(partial(_ends, account, [*committed]))
        return [
            Lag(place, offset, ends[place], members.get(place)) for place, offset in committed.items() if place in ends
        ]


def _ends(account: Account, places: list[Place]) -> dict[Place, int]:
    """The ends of partitions; those of topics that are gone are left out. Blocks."""
    if not places:
        return {}
    asked = account.admin.list_offsets({TopicPartition(*place): OffsetSpec.latest() for place in places})
    found: dict[Place, int] = {}
    for partition, future in asked.items():
        if future.exception(CALL_S_MAX) is None:
            found[partition.topic, partition.partition] = future.result().offset
    return found


def _word(state: Any) -> str:
    """The state as the REST proxy writes it, as PREPARING_REBALANCE."""
    return (
        str(state.name)
        .replace("PREPARING_REBALANCING", "PREPARING_REBALANCE")
        .replace("ING_REBALANCING", "ING_REBALANCE")
    )


def _group(cluster: str, group: str, **facts: object) -> Resource:
    path = link(cluster, "consumer-groups", group)
    links = {"consumers": related(f"{path}/consumers"), "lag_summary": related(f"{path}/lag-summary")}
    crn = f"kafka={cluster}/consumer-group={group}"
    return resource("ConsumerGroup", path, crn, cluster_id=cluster, consumer_group_id=group, **facts, **links)


def _consumer(cluster: str, group: str, member: Any) -> Resource:
    path = link(cluster, "consumer-groups", group, "consumers", member.member_id)
    crn = f"kafka={cluster}/consumer-group={group}/consumer={member.member_id}"
    facts = {"consumer_group_id": group, **_member(member), "assignments": related(f"{path}/assignments")}
    return resource("Consumer", path, crn, cluster_id=cluster, **facts)


def _member(member: Any) -> dict[str, str | None]:
    if member is None:
        return {"consumer_id": None, "instance_id": None, "client_id": None}
    return {
        "consumer_id": member.member_id,
        "instance_id": member.group_instance_id,
        "client_id": member.client_id,
    }


def _of_partition(kind: str, cluster: str, path: str, place: Place, **facts: object) -> Resource:
    topic, partition = place
    return resource(
        kind,
        f"{path}/{topic}/partitions/{partition}",
        f"kafka={cluster}/topic={topic}/partition={partition}",
        cluster_id=cluster,
        topic_name=topic,
        partition_id=partition,
        **facts,
    )
