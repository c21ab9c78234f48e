"""Settings of topics: what is accepted, what is refused, which layer wins."""

import pytest

from hutong.broker.topics.lifetimes import COMPACTED_GROUP, DATA_GROUPS, DAY_MS, LONG_GROUP, partition_group_for
from hutong.broker.topics.topic_config import KEYS, OVERRIDES_MAX, check_overrides, effective, effective_text
from hutong.foundation.errors import Refused
from hutong.wire.kafka.error_codes import ErrorCode


def test_every_default_is_accepted_by_its_own_check() -> None:
    assert check_overrides({name: key.default for name, key in KEYS.items()}) == {
        name: key.default for name, key in KEYS.items()
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "-2"),
        ("retention.ms", "soon"),
        ("retention.ms", "9" * 30),
        ("retention.ms", "²"),
        ("cleanup.policy", "shred"),
        ("cleanup.policy", ","),
        ("cleanup.policy", "delete,"),
        ("min.insync.replicas", "0"),
        ("message.timestamp.type", "createtime"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("hutong.qos", "all"),
        ("unclean.leader.election.enable", "true"),
        ("no.such.setting", "1"),
    ],
)
def test_a_wrong_value_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(Refused, match=name) as refused:
        check_overrides({name: value})
    assert refused.value.code == ErrorCode.INVALID_CONFIG


def test_a_null_value_means_the_default() -> None:
    assert check_overrides({"retention.ms": None}) == {}


def test_the_number_of_settings_is_bounded() -> None:
    with pytest.raises(Refused, match=str(OVERRIDES_MAX)):
        check_overrides({f"setting.{index}": "1" for index in range(OVERRIDES_MAX + 1)})


def test_the_topic_wins_over_the_node_and_the_node_over_the_built_in() -> None:
    defaults = {"retention.ms": "1000", "max.message.bytes": "2000"}
    text = effective_text({"retention.ms": "5"}, defaults)
    assert (text["retention.ms"], text["max.message.bytes"], text["retention.bytes"]) == ("5", "2000", "-1")


def test_effective_values_have_their_types() -> None:
    config = effective({"cleanup.policy": "compact,delete", "hutong.qos": "receive"}, {})
    assert config.compacted
    assert config.deletes
    assert config.receive_qos
    assert not config.log_append_time
    assert config.retention_ms == 7 * DAY_MS


@pytest.mark.parametrize(
    ("overrides", "group"),
    [
        ({"retention.ms": "1"}, "hours"),
        ({"retention.ms": str(DAY_MS)}, "hours"),
        ({}, "days"),
        ({"retention.ms": str(11 * DAY_MS)}, LONG_GROUP),
        ({"retention.ms": "-1"}, LONG_GROUP),
        ({"cleanup.policy": "", "retention.ms": "1"}, LONG_GROUP),
        ({"cleanup.policy": "compact"}, COMPACTED_GROUP),
        ({"cleanup.policy": "compact,delete", "retention.ms": "1"}, COMPACTED_GROUP),
    ],
)
def test_topics_of_like_lifetime_share_a_group(overrides: dict[str, str], group: str) -> None:
    assert partition_group_for(effective(overrides, {})) == group
    assert group in DATA_GROUPS


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("hutong.qos", "all", "one of persistence, receive; the levels replication and all are asked for by producers"),
        ("hutong.qos", "replication", "with acks=all"),
        ("message.timestamp.type", "now", "it must be one of CreateTime, LogAppendTime"),
        ("cleanup.policy", "delete,forget", "it must be a list of delete, compact"),
        ("remote.storage.enable", "true", "it must be only false"),
    ],
)
def test_the_error_for_a_wrong_word_names_those_that_may_be(name: str, value: str, sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        check_overrides({name: value})
