"""The settings that a streams group may have of its own, and what they come to."""

from typing import Final

from hutong.groups.configs import GroupConfigKey, GroupConfigs, bounded_number
from hutong.groups.streams.settings import StreamsGroupSettings, StreamsRules

SESSION_TIMEOUT_MS: Final = "streams.session.timeout.ms"
HEARTBEAT_INTERVAL_MS: Final = "streams.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL_MS: Final = "streams.assignment.interval.ms"
STANDBY_REPLICAS: Final = "streams.num.standby.replicas"
INITIAL_REBALANCE_DELAY_MS: Final = "streams.initial.rebalance.delay.ms"
GREATER: Final = ((SESSION_TIMEOUT_MS, HEARTBEAT_INTERVAL_MS),)


def config_keys(settings: StreamsGroupSettings) -> list[GroupConfigKey]:
    rules = settings.rules
    return [
        bounded_number(
            SESSION_TIMEOUT_MS,
            rules.session_timeout_ms,
            settings.session_timeout_ms_bounds,
            "Silence after which a member of this streams group is removed.",
        ),
        bounded_number(
            HEARTBEAT_INTERVAL_MS,
            rules.heartbeat_interval_ms,
            settings.heartbeat_interval_ms_bounds,
            "The interval at which members of this streams group send heartbeats.",
        ),
        bounded_number(
            ASSIGNMENT_INTERVAL_MS,
            rules.assignment_interval_ms,
            settings.assignment_interval_ms_bounds,
            "Time between two assignments of this streams group.",
        ),
        GroupConfigKey(
            STANDBY_REPLICAS,
            str(rules.standby_replicas),
            "Copies of the state of each task that other processes keep.",
            minimum=0,
            maximum=settings.standby_replicas_max,
            maximum_name="group.streams.max.standby.replicas",
        ),
        GroupConfigKey(
            INITIAL_REBALANCE_DELAY_MS,
            str(rules.initial_rebalance_delay_ms),
            "Time that the first member of this streams group waits for others.",
            minimum=0,
        ),
    ]


def rules_of(configs: GroupConfigs, group_id: str) -> StreamsRules:
    """The effective rules of one group."""
    return StreamsRules(
        session_timeout_ms=configs.number(group_id, SESSION_TIMEOUT_MS),
        heartbeat_interval_ms=configs.number(group_id, HEARTBEAT_INTERVAL_MS),
        assignment_interval_ms=configs.number(group_id, ASSIGNMENT_INTERVAL_MS),
        standby_replicas=configs.number(group_id, STANDBY_REPLICAS),
        initial_rebalance_delay_ms=configs.number(group_id, INITIAL_REBALANCE_DELAY_MS),
    )
