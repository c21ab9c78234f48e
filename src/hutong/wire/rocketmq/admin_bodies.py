"""JSON bodies of what RocketMQ's administrators ask, under RocketMQ's names. See `bodies`."""

from typing import Any

from msgspec import field

from hutong.wire.rocketmq.bodies import Body, BrokerData, SubscriptionData

# -- topics


class TopicList(Body):
    topicList: list[str]
    brokerAddr: str | None = None


class TopicQueues(Body):
    topicName: str
    readQueueNums: int
    writeQueueNums: int
    perm: int
    topicFilterType: str = "SINGLE_TAG"
    topicSysFlag: int = 0
    order: bool = False
    attributes: dict[str, str] = field(default_factory=dict)


class DataVersion(Body):
    counter: int = 0
    stateVersion: int = 0
    timestamp: int = 0


class TopicConfigs(Body):
    topicConfigTable: dict[str, TopicQueues]
    dataVersion: DataVersion


class TopicOffset(Body):
    """One queue in the table of GET_TOPIC_STATS_INFO."""

    minOffset: int
    maxOffset: int
    lastUpdateTimestamp: int


# -- the node


class ClusterInfo(Body):
    brokerAddrTable: dict[str, BrokerData]
    clusterAddrTable: dict[str, list[str]]


class RuntimeInfo(Body):
    table: dict[str, str]


# -- groups


class SubscriptionGroup(Body):
    """The settings of a consumer group, in a request and in answers."""

    groupName: str
    consumeEnable: bool = True
    consumeFromMinEnable: bool = True
    consumeBroadcastEnable: bool = True
    consumeMessageOrderly: bool = False
    retryQueueNums: int = 1
    retryMaxTimes: int = 16
    groupRetryPolicy: dict[str, Any] = field(default_factory=dict)
    brokerId: int = 0
    whichBrokerWhenConsumeSlowly: int = 1
    notifyConsumerIdsChangedEnable: bool = True
    groupSysFlag: int = 0
    consumeTimeoutMinute: int = 15
    attributes: dict[str, str] = field(default_factory=dict)


class SubscriptionGroups(Body):
    subscriptionGroupTable: dict[str, SubscriptionGroup]
    dataVersion: DataVersion
    forbiddenTable: dict[str, dict[str, int]] = field(default_factory=dict)


class GroupList(Body):
    groupList: list[str]


class ConsumeOffset(Body):
    """One queue in the table of GET_CONSUME_STATS."""

    brokerOffset: int
    consumerOffset: int
    pullOffset: int
    lastTimestamp: int


# -- connections


class ClientConnection(Body):
    clientId: str
    clientAddr: str
    language: str
    version: int


class ConsumerConnection(Body):
    connectionSet: list[ClientConnection]
    subscriptionTable: dict[str, SubscriptionData]
    consumeType: str
    messageModel: str
    consumeFromWhere: str


class ProducerConnection(Body):
    connectionSet: list[ClientConnection]


class ProducerInfo(Body):
    clientId: str
    remoteIP: str
    language: str
    version: int
    lastUpdateTimestamp: int


class ProducerTable(Body):
    data: dict[str, list[ProducerInfo]]
