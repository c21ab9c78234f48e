"""Patterns and topics: matched in stretches, so that no pattern holds the loop."""

import pytest
from tests.unit.groups.stage import Stage

from hutong.foundation.errors import Refused
from hutong.foundation.waiting.table import Owner
from hutong.groups.consumer.assignment import catalogue as catalogues
from hutong.groups.consumer.assignment.catalogue import TopicCatalogue, TopicFacts
from hutong.groups.consumer.driver import MATCH_PAUSE_MS
from hutong.groups.consumer.messages import HeartbeatReply
from hutong.groups.requests import GroupCaller
from hutong.wire.kafka.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from hutong.wire.kafka.error_codes import ErrorCode

HOSTILE = ".*" + "(a|b|c|d)" * 200


def facts(name: str) -> TopicFacts:
    return TopicFacts(name, name.encode().ljust(16), 1)


def full_of(count: int) -> TopicCatalogue:
    made = TopicCatalogue()
    for number in range(count):
        made.put(facts(f"t{number}"))
    return made


def test_usual_patterns_are_ready_at_once() -> None:
    made = full_of(1_000)
    made.hold("t.*1")
    assert made.is_ready("t.*1")
    assert not made.has_work
    assert len(made.matching("t.*1")) == 100
    made.put(facts("x1"))
    made.put(facts("t-1"))
    assert "t-1" in made.matching("t.*1")
    assert "x1" not in made.matching("t.*1")


def test_a_stretch_ends_whatever_the_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    matched: list[str] = []
    made = full_of(2_000)
    takes = catalogues._Pattern.takes

    def noted(pattern: catalogues._Pattern, topic: TopicFacts) -> bool:
        matched.append(topic.name)
        return takes(pattern, topic)

    monkeypatch.setattr(catalogues._Pattern, "takes", noted)
    made.hold(HOSTILE)
    first = len(matched)
    assert 0 < first < 2_000
    assert not made.is_ready(HOSTILE)
    assert made.work() is None
    assert len(matched) <= 2 * first + 1
    made.remove("t1999")
    made.hold("late.*")
    while made.has_work:
        made.work()
    assert made.is_ready(HOSTILE)
    assert "t1999" not in matched
    made.release(HOSTILE)
    made.release("late.*")


def test_a_pattern_that_is_let_go_is_not_matched_any_more() -> None:
    made = full_of(2_000)
    made.hold(HOSTILE)
    made.release(HOSTILE)
    assert not made.has_work
    assert made.work() is None


def test_many_patterns_do_not_make_a_new_topic_dear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogues, "STRETCH_UNITS", 2_500)
    made = TopicCatalogue()
    for number in range(10):
        made.hold(f"t.*{number}")
    made.put(facts("t9"))
    assert made.matching("t.*9") == set()
    done = [made.work() for _ in range(10)]
    assert "t.*9" in done
    assert made.matching("t.*9") == {"t9"}


def test_a_pattern_that_takes_too_much_memory_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        TopicCatalogue().check("((((a{100}){10}){10}){10})")
    assert refused.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_group_waits_for_its_pattern_and_loses_nothing_by_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogues, "STRETCH_UNITS", 1)  # one name in a stretch
    stage = Stage()

    def beat(epoch: int) -> HeartbeatReply:
        request = ConsumerGroupHeartbeatRequest("g", "m", epoch, None, None, -1, None, None)
        if epoch == 0:
            request.rebalance_timeout_ms, request.topic_partitions, request.subscribed_topic_regex = 1_000, [], "o.*"
        replies: list[HeartbeatReply] = []
        stage.consumer_groups.heartbeat(request, GroupCaller(1, "app", "/10.0.0.1", Owner()), replies.append)
        return replies[0]

    joined = beat(0)
    assert (joined.error, joined.epoch, joined.assignment) == (ErrorCode.NONE, 1, frozenset())
    stage.pass_time(2 * MATCH_PAUSE_MS)
    assigned = beat(1)
    assert assigned.assignment is not None
    assert (assigned.epoch, len(assigned.assignment)) == (2, 8)
    stage.restart()
    assert beat(2).assignment is None, "as the member knows it"
    stage.pass_time(2 * MATCH_PAUSE_MS)
    after = beat(2)
    assert (after.epoch, after.assignment) == (2, None)
