"""The node: GET_BROKER_CONFIG (26), GET_BROKER_RUNTIME_INFO (28) and GET_BROKER_CLUSTER_INFO (106).

Settings are shown under RocketMQ's names where the two mean the same. There is no way to change them here: RocketMQ's
UPDATE_BROKER_CONFIG (25) and UPDATE_NAMESRV_CONFIG (318) have let clients write files and run programs
(CVE-2023-33246, CVE-2023-37582).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.broker.rights.authorization import check_cluster
from hutong.broker.rocketmq.cluster.routes import brokers_of
from hutong.broker.rocketmq.requests.r105_route import QUEUES_OF_MODEL
from hutong.broker.rocketmq.requests.send_fields import MESSAGE_BYTES_MAX
from hutong.remoting.channels.answers import Answer
from hutong.security.acls import Operation
from hutong.wire.rocketmq.admin_bodies import ClusterInfo, RuntimeInfo
from hutong.wire.rocketmq.bodies import encode_body
from hutong.wire.rocketmq.codes import ResponseCode
from hutong.wire.rocketmq.command import Command

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hutong.broker.rocketmq.context import RocketContext
    from hutong.journal.log import PartitionLog

VERSION_SHOWN: Final = "HUTONG"  # where RocketMQ shows V5_5_0
# Columns of `mqadmin clusterList`, which fails without them: the node has no such queues, and measures no such rates.
_NOT_MEASURED: Final = {
    **dict.fromkeys(("putTps", "getTransferredTps", "getTotalTps"), "0.0 0.0 0.0"),
    **dict.fromkeys(("timerEnqueueTps", "timerDequeueTps"), "0.0"),
    **dict.fromkeys(
        (
            "msgPutTotalYesterdayMorning",
            "msgPutTotalTodayMorning",
            "msgGetTotalYesterdayMorning",
            "msgGetTotalTodayMorning",
            "msgGetTotalTodayNow",
            "sendThreadPoolQueueSize",
            "sendThreadPoolQueueHeadWaitTimeMills",
            "pullThreadPoolQueueSize",
            "pullThreadPoolQueueHeadWaitTimeMills",
            "ackThreadPoolQueueSize",
            "ackThreadPoolQueueHeadWaitTimeMills",
            "pageCacheLockTimeMills",
            "timerReadBehind",
            "timerOffsetBehind",
            "timerCongestNum",
        ),
        "0",
    ),
}
_GIB: Final = 1 << 30
_SECONDS: Final = (("days", 86_400), ("hours", 3_600), ("minutes", 60), ("seconds", 1))


def handle_config(context: RocketContext) -> Answer:
    check_cluster(context.kafka(), Operation.DESCRIBE_CONFIGS)
    identity, settings = context.parts.identity, context.parts.broker.settings
    shown = {
        "brokerName": identity.broker_name,
        "brokerClusterName": identity.cluster_name,
        "brokerId": "0",
        "brokerIP1": identity.host,
        "listenPort": str(identity.port),
        "autoCreateTopicEnable": "true" if settings.auto_create_topics else "false",
        "autoCreateSubscriptionGroup": "true",
        "defaultTopicQueueNums": str(QUEUES_OF_MODEL),
        "maxMessageSize": str(MESSAGE_BYTES_MAX),
        "flushDiskType": "SYNC_FLUSH",  # except topics with `hutong.qos=receive`
    }
    body = "".join([f"{name}={value}\n" for name, value in shown.items()])
    return Command(ResponseCode.SUCCESS, body=body.encode())


def handle_runtime(context: RocketContext) -> Answer:
    check_cluster(context.kafka(), Operation.DESCRIBE)
    broker = context.parts.broker
    topics = [topic for topic in broker.topics.newest_last() if not topic.is_internal]
    logs = [partition.log for topic in topics for partition in topic.partitions]
    now_ms, up_ms = broker.clock.wall_ms(), broker.clock.monotonic_ms() - context.parts.started_ms
    # What is not measured is overwritten where it is known after all.
    total, free = broker.storage.volume_bytes()
    table = {
        **_NOT_MEASURED,
        "brokerVersionDesc": VERSION_SHOWN,
        "brokerActive": "true",
        "bootTimestamp": str(now_ms - up_ms),
        "runtime": _duration(up_ms // 1_000),
        "msgPutTotalTodayNow": str(sum(log.last_stable_offset for log in logs)),
        "commitLogDiskRatio": f"{1 - free / total:.2f}",
        "commitLogDirCapacity": f"Total : {total / _GIB:.1f} GiB, Free : {free / _GIB:.1f} GiB.",
        "earliestMessageTimeStamp": str(_oldest_ms(logs)),
        "topicCount": str(len(topics)),
        "queueCount": str(len(logs)),
        "storedBytes": str(sum(log.held_bytes for log in logs)),
        "servedBytes": str(broker.served_bytes_total),
    }
    return Command(ResponseCode.SUCCESS, body=encode_body(RuntimeInfo(table)))


def handle_cluster(context: RocketContext) -> Answer:
    brokers = {name: broker for name, (broker, _) in brokers_of(context).items()}
    body = ClusterInfo(brokers, {context.parts.identity.cluster_name: [*brokers]})
    return Command(ResponseCode.SUCCESS, body=encode_body(body))


def _duration(seconds: int) -> str:
    parts: list[str] = []
    for name, size in _SECONDS:
        parts.append(f"{seconds // size} {name}")
        seconds %= size
    return f"[ {', '.join(parts)} ]"


def _oldest_ms(logs: Iterable[PartitionLog]) -> int:
    """About the time of the oldest message, -1 if there is none."""
    times = [log.timestamp_near(log.start_offset) for log in logs if log.last_stable_offset > log.start_offset]
    return min((each for each in times if each >= 0), default=-1)
