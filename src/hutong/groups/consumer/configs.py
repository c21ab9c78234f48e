"""The settings that a consumer group may have of its own, and what they come to."""

from typing import Final

from hutong.groups.configs import GroupConfigKey, GroupConfigs
from hutong.groups.consumer.settings import ConsumerGroupSettings, GroupTimes

SESSION_TIMEOUT_MS: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL_MS: Final = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL_MS: Final = "consumer.assignment.interval.ms"
GREATER: Final = ((SESSION_TIMEOUT_MS, HEARTBEAT_INTERVAL_MS),)


def config_keys(settings: ConsumerGroupSettings) -> list[GroupConfigKey]:
    times = settings.times
    return [
        GroupConfigKey(
            SESSION_TIMEOUT_MS,
            str(times.session_timeout_ms),
            "Silence after which a member of this consumer group is removed.",
            minimum=settings.session_timeout_ms_min,
            minimum_name="group.consumer.min.session.timeout.ms",
            maximum=settings.session_timeout_ms_max,
            maximum_name="group.consumer.max.session.timeout.ms",
        ),
        GroupConfigKey(
            HEARTBEAT_INTERVAL_MS,
            str(times.heartbeat_interval_ms),
            "The interval at which members of this consumer group send heartbeats.",
            minimum=settings.heartbeat_interval_ms_min,
            minimum_name="group.consumer.min.heartbeat.interval.ms",
            maximum=settings.heartbeat_interval_ms_max,
            maximum_name="group.consumer.max.heartbeat.interval.ms",
        ),
        GroupConfigKey(
            ASSIGNMENT_INTERVAL_MS,
            str(times.assignment_interval_ms),
            "Time between two assignments of this consumer group.",
            minimum=settings.assignment_interval_ms_min,
            minimum_name="group.consumer.min.assignment.interval.ms",
            maximum=settings.assignment_interval_ms_max,
            maximum_name="group.consumer.max.assignment.interval.ms",
        ),
    ]


def times_of(configs: GroupConfigs, group_id: str) -> GroupTimes:
    """The effective times of one group."""
    return GroupTimes(
        session_timeout_ms=configs.number(group_id, SESSION_TIMEOUT_MS),
        heartbeat_interval_ms=configs.number(group_id, HEARTBEAT_INTERVAL_MS),
        assignment_interval_ms=configs.number(group_id, ASSIGNMENT_INTERVAL_MS),
    )
