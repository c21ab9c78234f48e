"""The settings that a consumer group of RocketMQ's clients may have of its own, and what they come to.

They are those of `mqadmin updateSubGroup`, kept where the settings of Kafka's groups are.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from hutong.groups.configs import GroupConfigKey, GroupConfigs

RETRY_TIMES: Final = 16  # as `retryMaxTimes` of RocketMQ
RETRY_QUEUES_MAX: Final = 64  # each is a partition of this node
RETRY_TIMES_MAX: Final = 10_000  # every two hours, for more than two years
_PREFIX: Final = "hutong.rocketmq."
CONSUME: Final = f"{_PREFIX}consume"
BROADCAST: Final = f"{_PREFIX}consume.broadcast"
FROM_MIN: Final = f"{_PREFIX}consume.from.min"
ORDERLY: Final = f"{_PREFIX}consume.orderly"
TIMEOUT_MINUTES: Final = f"{_PREFIX}consume.timeout.minutes"
NOTIFY: Final = f"{_PREFIX}notify.members"
RETRY_TIMES_KEY: Final = f"{_PREFIX}retry.times"
RETRY_QUEUES_KEY: Final = f"{_PREFIX}retry.queues"


class RocketGroupRules(NamedTuple):
    """The rules of a group. Those from `from_min` on are kept for its tools, and change nothing here."""

    consumes: bool = True
    broadcasts: bool = True
    notifies: bool = True  # members of each other, at once
    retry_times: int = RETRY_TIMES  # where the consumer does not say
    retry_queues: int = 1  # none: what failed is forgotten
    from_min: bool = True
    is_orderly: bool = False
    timeout_minutes: int = 15


DEFAULT: Final = RocketGroupRules()


def config_keys() -> list[GroupConfigKey]:
    """The settings of RocketMQ's groups."""
    return [
        _switch(CONSUME, True, "Whether members of the group get messages from RocketMQ's port."),
        _switch(BROADCAST, True, "Whether members of the group may read every queue each (broadcasting)."),
        _switch(FROM_MIN, True, "Kept for RocketMQ's tools, without effect."),
        _switch(ORDERLY, False, "Kept for RocketMQ's tools, without effect on push consumers."),
        _switch(NOTIFY, True, "Whether members hear at once that others have joined or left, or look after 20 s."),
        _number(TIMEOUT_MINUTES, 15, 1, 2**31 - 1, "Kept for RocketMQ's tools, without effect on push consumers."),
        _number(
            RETRY_TIMES_KEY,
            RETRY_TIMES,
            0,
            RETRY_TIMES_MAX,
            "How often a message comes again before it goes to the dead letters, where the consumer does not say.",
        ),
        _number(
            RETRY_QUEUES_KEY,
            1,
            0,
            RETRY_QUEUES_MAX,
            "Queues of the group's retry topic when it is created; 0 forgets messages that failed.",
        ),
    ]


def rules_of(configs: GroupConfigs, group_id: str) -> RocketGroupRules:
    """The rules of one group."""
    # Most groups have none of their own.
    if not configs.of(group_id):
        return DEFAULT

    def is_on(name: str) -> bool:
        return configs.value(group_id, name) == "true"

    return RocketGroupRules(
        # In the order of the fields.
        is_on(CONSUME),
        is_on(BROADCAST),
        is_on(NOTIFY),
        configs.number(group_id, RETRY_TIMES_KEY),
        configs.number(group_id, RETRY_QUEUES_KEY),
        is_on(FROM_MIN),
        is_on(ORDERLY),
        configs.number(group_id, TIMEOUT_MINUTES),
    )


def texts_of(rules: RocketGroupRules) -> dict[str, str]:
    """The rules as settings, all of them: a group that was created with defaults alone is still there."""
    # Kafka's tools show settings as texts, and take them so.
    switches = {
        CONSUME: rules.consumes,
        BROADCAST: rules.broadcasts,
        FROM_MIN: rules.from_min,
        ORDERLY: rules.is_orderly,
        NOTIFY: rules.notifies,
    }
    return {
        **{name: "true" if is_on else "false" for name, is_on in switches.items()},
        TIMEOUT_MINUTES: str(rules.timeout_minutes),
        RETRY_TIMES_KEY: str(rules.retry_times),
        RETRY_QUEUES_KEY: str(rules.retry_queues),
    }


def is_ours(settings: Mapping[str, str]) -> bool:
    """Return True if a group has settings of this kind."""
    return any(name.startswith(_PREFIX) for name in settings)


def without_ours(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings of the other kinds."""
    return {name: value for name, value in settings.items() if not name.startswith(_PREFIX)}


def _switch(name: str, is_on: bool, documentation: str) -> GroupConfigKey:
    default = "true" if is_on else "false"
    return GroupConfigKey(name, default, documentation, is_number=False, choices=("true", "false"))


def _number(name: str, default: int, minimum: int, maximum: int, documentation: str) -> GroupConfigKey:
    return GroupConfigKey(name, str(default), documentation, minimum=minimum, maximum=maximum)
