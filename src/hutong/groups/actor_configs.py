"""The settings by which the node shares the disk among the readers of groups, and what they come to for one actor.

An actor is the readers of one topic in one group; a setting holds for each actor of its group. Several groups that
nothing distinguishes are one actor, with the sum of their shares.

Knows nothing of scheduling, nor of how readers and groups belong together.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from hutong.groups.configs import GroupConfigKey, GroupConfigs

PRIORITY: Final = "hutong.actor.priority"
QUOTA: Final = "hutong.actor.quota.bytes.per.second"
SUSPENDED: Final = "hutong.actor.suspended"
EXPIRY_MS: Final = "hutong.actor.expiry.ms"
NAMES: Final = (PRIORITY, QUOTA, SUSPENDED, EXPIRY_MS)
PRIORITY_MAX: Final = 100
EXPIRY_MS_MAX: Final = 20_000  # clients give a request 30 s (Java) or 60 s (librdkafka)
EXPIRY_MS_MIN: Final = 100


class ActorRules(NamedTuple):
    """`quota` is in bytes per second, 0 for none."""

    priority: int = 1
    quota: int = 0
    is_suspended: bool = False
    expiry_ms: int = EXPIRY_MS_MAX


DEFAULT: Final = ActorRules()


def config_keys() -> list[GroupConfigKey]:
    """The settings that a group of any kind may have."""
    return [
        GroupConfigKey(
            PRIORITY,
            "1",
            "The group's share of reads from the disk, relative to other groups: 2 gets twice as much as 1.",
            maximum=PRIORITY_MAX,
        ),
        GroupConfigKey(
            QUOTA,
            "0",
            "Bytes that the group's readers of one topic get from the disk in a second at most; 0 is no bound.",
            minimum=0,
        ),
        GroupConfigKey(
            SUSPENDED,
            "false",
            "Whether fetches of the group's members are answered without records.",
            is_number=False,
            choices=("true", "false"),
        ),
        GroupConfigKey(
            EXPIRY_MS,
            str(EXPIRY_MS_MAX),
            "A read that has waited so long for the disk is answered without records, and the client asks again.",
            minimum=EXPIRY_MS_MIN,
            maximum=EXPIRY_MS_MAX,
        ),
    ]


def rules_of(configs: GroupConfigs, group_id: str) -> ActorRules:
    """The rules of one group."""
    # Most groups have none of their own.
    if not configs.of(group_id):
        return DEFAULT
    return ActorRules(
        configs.number(group_id, PRIORITY),
        configs.number(group_id, QUOTA),
        configs.value(group_id, SUSPENDED) == "true",
        configs.number(group_id, EXPIRY_MS),
    )


def joined(rules: Sequence[ActorRules]) -> ActorRules:
    """The rules of an actor of several groups: together they get what they would get apart."""
    quotas = [each.quota for each in rules]
    return ActorRules(
        sum(each.priority for each in rules),
        # Nothing distinguishes the readers of a group without a quota, and those must not be bounded by the others'.
        sum(quotas) if all(quotas) else 0,
        # A group that is not suspended must be served, even if another reads under its name.
        all(each.is_suspended for each in rules),
        max(each.expiry_ms for each in rules),
    )
