"""The settings that a consumer group may have of its own, and what they come to."""

from typing import Final

from hutong.groups.assigned.settings import GroupTimes
from hutong.groups.configs import GroupConfigKey, GroupConfigs, bounded_number
from hutong.groups.consumer.settings import ConsumerGroupSettings

SESSION_TIMEOUT_MS: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL_MS: Final = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL_MS: Final = "consumer.assignment.interval.ms"
GREATER: Final = ((SESSION_TIMEOUT_MS, HEARTBEAT_INTERVAL_MS),)


def config_keys(settings: ConsumerGroupSettings) -> list[GroupConfigKey]:
    return [
        bounded_number(
            SESSION_TIMEOUT_MS,
            settings.times.session_timeout_ms,
            (settings.session_timeout_ms_min, settings.session_timeout_ms_max),
            "Silence after which a member of this consumer group is removed.",
        ),
        bounded_number(
            HEARTBEAT_INTERVAL_MS,
            settings.times.heartbeat_interval_ms,
            (settings.heartbeat_interval_ms_min, settings.heartbeat_interval_ms_max),
            "The interval at which members of this consumer group send heartbeats.",
        ),
        bounded_number(
            ASSIGNMENT_INTERVAL_MS,
            settings.times.assignment_interval_ms,
            (settings.assignment_interval_ms_min, settings.assignment_interval_ms_max),
            "Time between two assignments of this consumer group.",
        ),
    ]


def times_of(configs: GroupConfigs, group_id: str) -> GroupTimes:
    """The effective times of one group."""
    return GroupTimes(
        session_timeout_ms=configs.number(group_id, SESSION_TIMEOUT_MS),
        heartbeat_interval_ms=configs.number(group_id, HEARTBEAT_INTERVAL_MS),
        assignment_interval_ms=configs.number(group_id, ASSIGNMENT_INTERVAL_MS),
    )
