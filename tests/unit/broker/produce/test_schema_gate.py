"""Topics that demand schemas: when a request is held, and what becomes of batches whose schemas are not known."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import pytest
from tests.support.sessions import session_of

from hutong.broker.produce.record_checks import (
    LOOP_RECORDS_MAX,
    SCHEMA_IDS_MAX,
    BatchRules,
    CheckedBatch,
    RefusedRecords,
    check_batch,
    check_contents,
    check_header,
)
from hutong.broker.produce.schema_gate import SchemaGate
from hutong.broker.topics.schema_demands import RECORD_NAME, TOPIC_RECORD_NAME, SchemaDemand
from hutong.foundation.errors import HutongError, LimitExceeded, OwnerGone, Refused
from hutong.reactor.connections.channel import HELD
from hutong.wire.kafka.batch.records import Record, build_batch
from hutong.wire.kafka.error_codes import ErrorCode

MEBIBYTE: Final = 1024 * 1024
VALUES: Final = SchemaDemand(of_keys=False)
RULES: Final = BatchRules(MEBIBYTE, True, False, False, 0, 10, (VALUES,))
TOPIC: Any = SimpleNamespace(name="t")
OTHER: Final = Refused(ErrorCode.CORRUPT_MESSAGE)


class Registry:
    """Known schemas, and refreshes that the test ends."""

    def __init__(self, *known: int) -> None:
        self.is_current = True
        self.known = set(known)
        self.refreshes: list[Callable[[HutongError | None], None]] = []

    def is_registered(self, topic: str, demand: SchemaDemand, schema_id: int) -> bool:
        assert (topic, demand) == ("t", VALUES)
        return schema_id in self.known

    def refresh(self, then: Callable[[HutongError | None], None]) -> None:
        self.refreshes.append(then)


class Scene:
    def __init__(self, *known: int) -> None:
        self.released = 0
        self.session = session_of(release=self.release)
        self.registry = Registry(*known)
        self.gate = SchemaGate()
        self.gate.known = self.registry

    def release(self) -> None:
        self.released += 1

    def look(self, *outcomes: Any) -> Any:
        return self.gate.look([TOPIC] * len(outcomes), outcomes, self.session)


def batch(*ids: int) -> memoryview:
    return memoryview(build_batch([Record(timestamp_ms=1, value=b"\0" + each.to_bytes(4, "big")) for each in ids]))


def checked(*ids: int) -> CheckedBatch:
    return check_batch(batch(*ids), RULES, MEBIBYTE)


def test_what_is_known_passes_at_once() -> None:
    scene = Scene(1, 2)
    outcomes = [checked(1, 2), OTHER, None]
    assert scene.look(*outcomes) == outcomes
    assert scene.registry.refreshes == []


def test_what_is_not_known_is_looked_for_once() -> None:
    scene = Scene(1)
    outcomes = [checked(1), checked(1, 7), OTHER]
    assert scene.look(*outcomes) is HELD
    scene.registry.refreshes[0](None)
    assert scene.released == 1
    found = scene.look(*outcomes)
    assert (found[0], found[2]) == (outcomes[0], OTHER)
    assert isinstance(found[1], RefusedRecords)
    assert (found[1].code, found[1].indexes) == (ErrorCode.INVALID_RECORD, [1])
    assert found[1].message == "The schema id 7 of a value is not registered under the subject t-value."
    # The next request asks anew.
    assert scene.look(checked(7)) is HELD


def test_what_was_registered_meanwhile_passes() -> None:
    scene = Scene()
    assert scene.look(checked(7)) is HELD
    scene.registry.known.add(7)
    scene.registry.refreshes[0](None)
    assert scene.look(checked(7)) == [checked(7)]


def test_a_registry_that_is_behind_reads_first() -> None:
    scene = Scene(1)
    scene.registry.is_current = False
    assert scene.look(checked(1)) is HELD
    scene.registry.known.clear()
    scene.registry.refreshes[0](None)
    assert scene.look(checked(1))[0].code == ErrorCode.INVALID_RECORD


def test_producers_send_again_where_the_registry_does_not_answer() -> None:
    scene = Scene(1)
    outcomes = [checked(1), checked(7)]
    assert scene.look(*outcomes) is HELD
    scene.registry.refreshes[0](OwnerGone("the leader is gone"))
    found = scene.look(*outcomes)
    assert found[0] == outcomes[0]
    assert found[1].code == ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_client_that_goes_meanwhile_leaves_nothing() -> None:
    scene = Scene()
    assert scene.look(checked(7)) is HELD
    scene.session.owner.end()
    scene.registry.refreshes[0](None)
    assert scene.released == 0
    assert not scene.gate._refreshed
    other = Scene()
    assert other.look(checked(7)) is HELD
    other.registry.refreshes[0](None)
    other.gate.forget(other.session)
    assert not other.gate._refreshed


def test_a_node_without_a_registry_takes_nothing() -> None:
    scene = Scene()
    scene.gate.known = None
    assert scene.look(checked(1))[0].code == ErrorCode.POLICY_VIOLATION


def test_values_without_an_id_are_named() -> None:
    records = [Record(timestamp_ms=1, value=value) for value in (b"\0\0\0\0\x01", b"plain", None, b"\0")]
    with pytest.raises(RefusedRecords, match="no value without the id of a schema") as raised:
        check_batch(memoryview(build_batch(records)), RULES, MEBIBYTE)
    assert raised.value.indexes == [1, 3]


def test_ids_of_one_batch_have_a_bound() -> None:
    assert len(checked(*range(SCHEMA_IDS_MAX)).schema_ids[0][1]) == SCHEMA_IDS_MAX
    with pytest.raises(RefusedRecords, match="1000 schemas") as raised:
        checked(*range(SCHEMA_IDS_MAX + 1))
    assert raised.value.indexes == [SCHEMA_IDS_MAX]


def test_a_loop_walks_few_records() -> None:
    few, many = batch(*[1] * LOOP_RECORDS_MAX), batch(*[1] * (LOOP_RECORDS_MAX + 1))
    check_contents(check_header(few, RULES), few, RULES, MEBIBYTE, is_on_loop=True)
    with pytest.raises(LimitExceeded):
        check_contents(check_header(many, RULES), many, RULES, MEBIBYTE, is_on_loop=True)
    check_contents(check_header(many, RULES), many, RULES, MEBIBYTE)


@pytest.mark.parametrize(
    ("demand", "place"),
    [
        (SchemaDemand(of_keys=True), "registered under the subject t-key"),
        (SchemaDemand(of_keys=False, strategy=TOPIC_RECORD_NAME), "registered under a subject that begins with t-"),
        (SchemaDemand(of_keys=False, strategy=RECORD_NAME), "registered"),
    ],
)
def test_the_place_is_told(demand: SchemaDemand, place: str) -> None:
    assert demand.place("t") == place
