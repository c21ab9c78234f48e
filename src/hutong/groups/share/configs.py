"""The settings of single share groups (`share.*`): what each may be, and what holds where a group has none.

Knows nothing of groups beyond their names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from hutong.groups.configs import GroupConfigKey, bounded_number
from hutong.groups.rocketmq_configs import RETRY_TIMES, RETRY_TIMES_KEY
from hutong.groups.share.delivery.messages import DeliveryLimits
from hutong.groups.share.settings import GroupRules, ShareSettings

BY_DURATION: Final = "by_duration:"
POP: Final = "hutong.pop"
DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"  # KIP-1191
_DURATION: Final = re.compile(
    r"P(?:(\d{1,7})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,12})(?:\.(\d{1,9}))?S)?)?", re.IGNORECASE
)


def duration_ms(text: str) -> int | None:
    """An ISO 8601 duration as Kafka takes it (PnDTnHnMn.nS), None if it is none, or negative."""
    match = _DURATION.fullmatch(text)
    # `P` and `P1DT` match the expression, but are no durations.
    if match is None or not any(match.groups()) or text.upper().endswith("T"):
        return None
    days, hours, minutes, seconds = (int(number or 0) for number in match.groups()[:4])
    fraction_ms = int((match.group(5) or "0").ljust(3, "0")[:3])
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + fraction_ms


SESSION_TIMEOUT: Final = "share.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "share.heartbeat.interval.ms"
LOCK_DURATION: Final = "share.record.lock.duration.ms"
DELIVERY_LIMIT: Final = "share.delivery.count.limit"
LOCKS_MAX: Final = "share.partition.max.record.locks"
OFFSET_RESET: Final = "share.auto.offset.reset"
ISOLATION_LEVEL: Final = "share.isolation.level"
RENEWAL: Final = "share.renew.acknowledge.enable"
GREATER: Final = ((SESSION_TIMEOUT, HEARTBEAT_INTERVAL),)
_TOPIC_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def config_keys(settings: ShareSettings) -> list[GroupConfigKey]:
    """The settings that a share group may have."""

    def words(name: str, default: str, documentation: str, *choices: str) -> GroupConfigKey:
        return GroupConfigKey(name, default, documentation, is_number=False, choices=choices)

    return [
        bounded_number(
            SESSION_TIMEOUT,
            settings.session_timeout_ms,
            settings.session_timeout_ms_bounds,
            "A member that is silent for so long is left out.",
        ),
        bounded_number(
            HEARTBEAT_INTERVAL,
            settings.heartbeat_interval_ms,
            settings.heartbeat_interval_ms_bounds,
            "The interval at which members send heartbeats.",
        ),
        bounded_number(
            LOCK_DURATION,
            settings.record_lock_duration_ms,
            settings.record_lock_duration_ms_bounds,
            "How long a member may work at a record before another gets it.",
        ),
        bounded_number(
            DELIVERY_LIMIT,
            settings.delivery_count_limit,
            settings.delivery_count_limit_bounds,
            "How often a record is delivered at most.",
        ),
        bounded_number(
            LOCKS_MAX,
            settings.partition_max_record_locks,
            settings.partition_max_record_locks_bounds,
            "Records of a partition that the group has in hand at a time.",
        ),
        GroupConfigKey(
            OFFSET_RESET, "latest", "Where the group begins: earliest, latest, or by_duration:PnDTnHnMn.nS.",
            is_number=False, check=_problem_of_reset,
        ),
        words(ISOLATION_LEVEL, "read_uncommitted", "Whose records come.", "read_committed", "read_uncommitted"),
        words(RENEWAL, "true", "Whether members may renew locks (KIP-1222).", "true", "false"),
        words(POP, "false", "Whether RocketMQ's clients pop: 17 deliveries, read_committed.", "true", "false"),
        GroupConfigKey(
            DEAD_LETTER_TOPIC, "", "The topic that gets what is given up (KIP-1191); empty: none.",
            is_number=False, check=_problem_of_topic,
        ),
    ]  # fmt: skip


def _problem_of_reset(value: str) -> str:
    duration = value.removeprefix(BY_DURATION)
    if value in ("earliest", "latest") or (duration != value and duration_ms(duration) is not None):
        return ""
    return (
        f"Invalid value {value[:100]} for configuration {OFFSET_RESET}: "
        "it must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
    )


def _problem_of_topic(value: str) -> str:
    if not value or (_TOPIC_NAME.fullmatch(value) and value not in (".", "..") and not value.startswith("__")):
        return ""
    return f"Invalid value {value[:100]} for configuration {DEAD_LETTER_TOPIC}: it is no name for a topic of records."


class ShareRules:
    """Gives each group its rules; worked out once for each set of settings."""

    def __init__(self, settings: ShareSettings, overrides_of: Callable[[str], Mapping[str, str]]) -> None:
        self._settings = settings
        self._overrides_of = overrides_of
        self._known: dict[tuple[tuple[str, str], ...], GroupRules] = {}

    def __call__(self, group_id: str) -> GroupRules:
        overrides = self._overrides_of(group_id)
        key = tuple(overrides.items())
        rules = self._known.get(key)
        if rules is None:
            # Settings that no group has any more would stay for ever; the others are soon worked out again.
            if len(self._known) > 1_000:
                self._known.clear()
            rules = self._known[key] = _rules(overrides, self._settings)
        return rules


def _rules(overrides: Mapping[str, str], settings: ShareSettings) -> GroupRules:
    def number(name: str, default: int) -> int:
        return int(overrides.get(name, default))

    is_pop, retries = overrides.get(POP) == "true", number(RETRY_TIMES_KEY, RETRY_TIMES)
    reset = overrides.get(OFFSET_RESET, "latest")
    duration = duration_ms(reset.removeprefix(BY_DURATION)) if reset.startswith(BY_DURATION) else None
    dead_letter_topic = overrides.get(DEAD_LETTER_TOPIC, "")
    return GroupRules(
        session_timeout_ms=number(SESSION_TIMEOUT, settings.session_timeout_ms),
        heartbeat_interval_ms=number(HEARTBEAT_INTERVAL, settings.heartbeat_interval_ms),
        auto_offset_reset=reset if duration is None else "by_duration",
        reset_duration_ms=duration or 0,
        is_read_committed=overrides.get(ISOLATION_LEVEL, "read_committed" if is_pop else "") == "read_committed",
        dead_letter_topic=dead_letter_topic,
        delivery=DeliveryLimits(
            delivery_limit=number(DELIVERY_LIMIT, retries + 1 if is_pop else settings.delivery_count_limit),
            lock_ms=number(LOCK_DURATION, settings.record_lock_duration_ms),
            locks_max=number(LOCKS_MAX, settings.partition_max_record_locks),
            may_renew=overrides.get(RENEWAL, "true") == "true",
            has_dead_letters=bool(dead_letter_topic),
        ),
        is_pop=is_pop,
    )
