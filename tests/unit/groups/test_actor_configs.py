"""The settings of actors: what they may be, and what those of several groups come to together."""

import pytest

from hutong.foundation.errors import HutongError, Refused
from hutong.groups.actor_configs import (
    DEFAULT,
    EXPIRY_MS,
    PRIORITY,
    QUOTA,
    SUSPENDED,
    ActorRules,
    config_keys,
    joined,
    rules_of,
)
from hutong.groups.configs import GroupConfigs
from hutong.wire.kafka.error_codes import ErrorCode


def test_a_group_without_settings_has_one_share_and_no_bound() -> None:
    assert rules_of(GroupConfigs(config_keys()), "g") == DEFAULT == ActorRules(1, 0, False, 20_000)


def test_a_group_has_the_rules_that_were_set() -> None:
    configs = GroupConfigs(config_keys())
    configs.replay(
        b"group-config/g",
        b'{"hutong.actor.priority":"3","hutong.actor.quota.bytes.per.second":"1000",'
        b'"hutong.actor.suspended":"true","hutong.actor.expiry.ms":"500"}',
    )
    assert rules_of(configs, "g") == ActorRules(3, 1000, True, 500)
    assert rules_of(configs, "other") == DEFAULT


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (PRIORITY, "0", "hutong.actor.priority must be greater than or equal to 1"),
        (PRIORITY, "101", "hutong.actor.priority must be less than or equal to 100"),
        (PRIORITY, "high", "Invalid value high for configuration hutong.actor.priority: Not a number of type INT"),
        (QUOTA, "-1", "hutong.actor.quota.bytes.per.second must be greater than or equal to 0"),
        (EXPIRY_MS, "99", "hutong.actor.expiry.ms must be greater than or equal to 100"),
        (EXPIRY_MS, "30000", "hutong.actor.expiry.ms must be less than or equal to 20000"),
        (
            SUSPENDED,
            "yes",
            "Invalid value yes for configuration hutong.actor.suspended: it must be one of ('true', 'false')",
        ),
    ],
)
def test_a_wrong_value_is_refused_with_its_reason(name: str, value: str, message: str) -> None:
    with pytest.raises(Refused) as refused:
        GroupConfigs(config_keys()).check({name: value})
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert isinstance(refused.value, HutongError)
    assert refused.value.message == message


def test_groups_that_cannot_be_told_apart_have_together_what_they_have_apart() -> None:
    first, second = ActorRules(2, 1000, True, 500), ActorRules(1, 500, False, 20_000)
    assert joined([first, second]) == ActorRules(3, 1500, False, 20_000)
    assert joined([first, DEFAULT]).quota == 0, "one of them has no bound"
    assert joined([first, first]).is_suspended
