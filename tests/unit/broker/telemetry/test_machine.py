"""Who may ask for a subscription and push metrics, and when."""

import pytest

from hutong.broker.telemetry.machine import INSTANCES_MAX, ClientInstances
from hutong.broker.telemetry.subscription import MetricSubscription
from hutong.foundation.errors import Refused
from hutong.wire.kafka.error_codes import ErrorCode

ZERO, ONE = bytes(16), b"instance-one-id!"
INTERVAL_MS = 1_000
ALL = MetricSubscription(("*",), INTERVAL_MS)


class Scene:
    def __init__(self) -> None:
        self._made = 0
        self.instances = ClientInstances(100, self._make_id)
        self.version = 1
        self.subscription = ALL
        self.now_ms = 50

    def _make_id(self) -> bytes:
        self._made += 1
        return self._made.to_bytes(16, "big", signed=False)[::-1]

    def ask(self, instance_id: bytes = ONE) -> tuple[bytes, int]:
        given, instance = self.instances.ask(instance_id, self.version, lambda _: self.subscription, self.now_ms)
        self.instances.check_invariants()
        return given, instance.id

    def push(
        self,
        subscription_id: int,
        instance_id: bytes = ONE,
        *,
        is_last: bool = False,
        compression: int = 4,
        size: int = 100,
    ) -> None:
        self.instances.push(
            instance_id,
            subscription_id,
            is_last=is_last,
            compression=compression,
            size=size,
            version=self.version,
            find=lambda _: self.subscription,
            now_ms=self.now_ms,
        )


def refused(act: object) -> int:
    with pytest.raises(Refused) as caught:
        act()  # type: ignore[operator]
    return caught.value.code


def test_a_client_without_an_id_gets_one() -> None:
    scene = Scene()
    first, second = scene.ask(ZERO)[0], scene.ask(ZERO)[0]
    assert ZERO not in (first, second)
    assert first != second
    assert scene.ask(ONE)[0] == ONE


def test_ids_that_are_reserved() -> None:
    scene, reserved = Scene(), bytes(15) + b"\1"
    assert refused(lambda: scene.ask(reserved)) == ErrorCode.INVALID_REQUEST
    for instance_id in (ZERO, reserved):
        assert refused(lambda instance_id=instance_id: scene.push(1, instance_id)) == ErrorCode.INVALID_REQUEST


def test_one_push_after_a_question_and_one_in_each_interval() -> None:
    scene = Scene()
    _, subscription = scene.ask()
    scene.now_ms += 1
    scene.push(subscription)
    scene.now_ms += INTERVAL_MS - 1
    assert refused(lambda: scene.push(subscription)) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert refused(scene.ask) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    scene.now_ms += 1
    scene.push(subscription)


def test_questions_come_once_in_each_interval() -> None:
    scene = Scene()
    scene.ask()
    assert refused(scene.ask) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    scene.now_ms += INTERVAL_MS
    scene.ask()


def test_the_last_push_comes_at_any_time_and_once() -> None:
    scene = Scene()
    _, subscription = scene.ask()
    scene.push(subscription)
    scene.push(subscription, is_last=True)
    scene.now_ms += 10 * INTERVAL_MS
    for is_last in (True, False):
        with pytest.raises(Refused, match="after the last"):
            scene.push(subscription, is_last=is_last)


def test_changed_settings_ask_for_a_new_question_at_once() -> None:
    scene = Scene()
    _, old = scene.ask()
    scene.version, scene.subscription = 2, MetricSubscription(("org.apache.kafka.producer.",), INTERVAL_MS)
    assert refused(lambda: scene.push(old)) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    _, new = scene.ask()
    assert new != old
    scene.push(new)


def test_what_is_too_much_or_not_known() -> None:
    scene = Scene()
    _, subscription = scene.ask()
    assert refused(lambda: scene.push(subscription, compression=5)) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    scene.ask()
    assert refused(lambda: scene.push(subscription, compression=-1)) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert refused(lambda: scene.push(subscription, size=101)) == ErrorCode.TELEMETRY_TOO_LARGE
    for compression in range(5):
        scene.push(subscription, compression=compression)
        scene.now_ms += INTERVAL_MS


def test_an_instance_that_another_node_knew_pushes_on() -> None:
    first, second = Scene(), Scene()
    _, subscription = first.ask()
    second.push(subscription)


def test_instances_are_bounded() -> None:
    scene = Scene()
    for number in range(INSTANCES_MAX + 10):
        scene.ask(b"x" * 8 + number.to_bytes(8, "big"))
    assert len(scene.instances) == INSTANCES_MAX
