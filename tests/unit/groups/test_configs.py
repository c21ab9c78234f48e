"""Settings of single groups: checked, durable before they hold, back to the node's when deleted."""

from collections.abc import Callable

import pytest

from hutong.foundation.errors import DiskFull, HutongError, Refused
from hutong.groups.assigned.settings import GroupTimes
from hutong.groups.configs import CONFIGURED_GROUPS_MAX, GroupConfigKey, GroupConfigs
from hutong.groups.consumer.configs import GREATER, config_keys, times_of
from hutong.groups.consumer.settings import ConsumerGroupSettings
from hutong.wire.kafka.error_codes import ErrorCode

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
SETTINGS = ConsumerGroupSettings()


class FakeLog:
    """The catalogue's log; `error` is what becomes of the next append."""

    def __init__(self) -> None:
        self.records: dict[bytes, bytes | None] = {}
        self.error: HutongError | None = None
        self.holds_back = False
        self._held: list[Callable[[], None]] = []

    def append(self, key: bytes, value: bytes | None, then: Callable[[HutongError | None], None]) -> None:
        if self.error is None:
            self.records[key] = value
        if self.holds_back:
            self._held.append(lambda: then(None))
        else:
            then(self.error)

    def flush(self) -> None:
        while self._held:
            self._held.pop(0)()


def opened(log: FakeLog) -> GroupConfigs:
    configs = GroupConfigs(config_keys(SETTINGS), GREATER)
    for key, value in log.records.items():
        configs.replay(key, value)
    configs.start(log)
    return configs


def test_a_group_goes_by_its_own_settings_and_else_by_the_nodes() -> None:
    log, outcomes = FakeLog(), list[HutongError | None]()
    configs = opened(log)
    assert times_of(configs, "g") == SETTINGS.times
    changed: list[str] = []
    configs.on_change.append(changed.append)
    configs.alter("g", {SESSION: "50000"}, outcomes.append)
    assert outcomes == [None]
    assert changed == list(configs) == ["g"]
    assert times_of(opened(log), "g") == GroupTimes(50_000, 5_000, 1_000)
    configs.alter("g", {}, outcomes.append)
    assert times_of(opened(log), "g") == SETTINGS.times


def test_a_change_begins_where_the_one_under_way_ends() -> None:
    log, outcomes = FakeLog(), list[HutongError | None]()
    log.holds_back = True
    configs = opened(log)
    configs.alter("g", {SESSION: "50000"}, outcomes.append)
    assert (configs.of("g"), configs.latest("g")) == ({}, {SESSION: "50000"})
    configs.alter("g", {**configs.latest("g"), HEARTBEAT: "6000"}, outcomes.append)
    log.flush()
    assert outcomes == [None, None]
    assert configs.of("g") == configs.latest("g") == {SESSION: "50000", HEARTBEAT: "6000"}


def test_a_change_that_failed_is_no_beginning() -> None:
    log, outcomes = FakeLog(), list[HutongError | None]()
    configs = opened(log)
    log.error = DiskFull("full")
    configs.alter("g", {SESSION: "50000"}, outcomes.append)
    assert configs.latest("g") == {}


def test_what_is_not_durable_does_not_hold() -> None:
    log, outcomes = FakeLog(), list[HutongError | None]()
    configs = opened(log)
    log.error = DiskFull("full")
    configs.alter("g", {SESSION: "50000"}, outcomes.append)
    assert outcomes == [log.error]
    assert configs.of("g") == {}


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ({"consumer.nonsense": "1"}, "Unknown group config name: consumer.nonsense"),
        ({SESSION: "soon"}, "Not a number"),
        ({SESSION: None}, "Null value"),
        ({SESSION: "44999"}, "must be greater than or equal to group.consumer.min.session.timeout.ms"),
        ({SESSION: "60001"}, "must be less than or equal to group.consumer.max.session.timeout.ms"),
        ({HEARTBEAT: "1"}, "must be greater than or equal to group.consumer.min.heartbeat.interval.ms"),
    ],
)
def test_what_is_wrong_is_said(overrides: dict[str, str | None], problem: str) -> None:
    with pytest.raises(Refused, match=problem.replace(".", r"\.")) as caught:
        opened(FakeLog()).alter("g", overrides, lambda _error: None)
    assert caught.value.code == ErrorCode.INVALID_CONFIG


def test_a_session_outlasts_heartbeats() -> None:
    keys = [GroupConfigKey(SESSION, "45000", ""), GroupConfigKey(HEARTBEAT, "5000", "")]
    configs = GroupConfigs(keys, GREATER)
    with pytest.raises(Refused, match="must be greater than"):
        configs.check({SESSION: "5000"})


def test_words_have_choices_or_a_check() -> None:
    switch = GroupConfigKey("switch", "true", "", is_number=False, choices=("true", "false"))
    word = GroupConfigKey("word", "a", "", is_number=False, check=lambda value: "" if value == "a" else "no")
    assert switch.is_boolean
    assert not word.is_boolean
    assert (switch.problem("false"), word.problem("a"), word.problem("b")) == ("", "", "no")
    assert "must be one of" in switch.problem("maybe")


def test_only_so_many_groups_have_settings() -> None:
    configs = opened(FakeLog())
    configs._overrides = {str(number): {} for number in range(CONFIGURED_GROUPS_MAX)}
    with pytest.raises(Refused) as caught:
        configs.alter("g", {SESSION: "50000"}, lambda _error: None)
    assert caught.value.code == ErrorCode.POLICY_VIOLATION
    with pytest.raises(Refused) as caught:
        configs.alter("", {SESSION: "50000"}, lambda _error: None)
    assert caught.value.code == ErrorCode.INVALID_REQUEST
