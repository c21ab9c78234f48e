"""Sends the script to both servers and collects where their answers differ without reason.

python -m tests.compat.differential.runner KAFKA HUTONG --seed 1 --count 3000
"""

import argparse
import contextlib
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.compat.differential.differences import MEANT, Difference, differences
from tests.compat.differential.script import steps
from tests.compat.differential.side import CLOSED, Side, Tree
from tests.compat.differential.values import GROUPS, TOPICS, TRANSACTIONAL_IDS
from tests.support.waiting import until

from hutong.wire.kafka.apis.k10_find_coordinator import FindCoordinatorRequest
from hutong.wire.kafka.apis.k15_describe_groups import DescribeGroupsRequest
from hutong.wire.kafka.apis.k16_list_groups import ListGroupsRequest
from hutong.wire.kafka.apis.k18_api_versions import ApiVersionsRequest
from hutong.wire.kafka.apis.k19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from hutong.wire.kafka.apis.k65_describe_transactions import DescribeTransactionsRequest
from hutong.wire.kafka.registry import APIS
from hutong.wire.kafka.schema import message_info

CHANGING_TOPICS: Final = frozenset({3, 19, 20, 37})
CHANGING_GROUPS: Final = frozenset({11, 13, 14})
TELLING_OF_GROUPS: Final = frozenset({8, 11, 12, 13, 14, 15, 42, 47})
ENDING_TRANSACTIONS: Final = frozenset({22, 26})
NOT_READY: Final = frozenset({14, 15, 16, 51})  # the coordinator loads, is looked for, or writes its markers
SETTLE_S_MAX: Final = 15.0
REBALANCE_S_MAX: Final = 2.0
BETWEEN_S: Final = 0.03  # two questions to the same server


@dataclass
class Report:
    """The findings of a run."""

    sent: int = 0
    by_api: Counter[str] = field(default_factory=Counter)
    error_codes: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    meant: Counter[str] = field(default_factory=Counter)  # reason -> how often
    unexplained: list[tuple[int, str, int, Any, Difference]] = field(default_factory=list)


class Comparison:
    """Both servers, kept in the same state by the same requests."""

    def __init__(self, kafka: str, hutong: str) -> None:
        self.kafka, self.hutong = Side("kafka", kafka), Side("hutong", hutong)
        self.report = Report()
        self.trace: frozenset[int] = frozenset()

    def close(self) -> None:
        self.kafka.close()
        self.hutong.close()

    def common_apis(self) -> frozenset[int]:
        """Keys that both servers answer."""
        offered = []
        for side in (self.kafka, self.hutong):
            answer = side.ask(-1, ApiVersionsRequest(), 0)
            offered.append({api["api_key"] for api in answer["api_keys"]})
        return frozenset(offered[0] & offered[1] & APIS.keys())

    def prepare(self) -> None:
        """The topics of the pools, and coordinators that are awake."""
        topics = [CreatableTopic(name, 3, 1) for name in TOPICS[:3]]
        topics.append(CreatableTopic("compacted", 1, 1, configs=[CreatableTopicConfig("cleanup.policy", "compact")]))
        for side in (self.kafka, self.hutong):
            side.ask(-1, CreateTopicsRequest(topics=topics, timeout_ms=20_000), 4)
        self._settle()
        for kind in (0, 1):
            for side in (self.kafka, self.hutong):
                self._until_ready(side, kind)

    def run(self, seed: int, count: int, keys: frozenset[int]) -> Report:
        for number, (message, version) in enumerate(steps(seed, count, keys & self.common_apis())):
            self._step(number, message, version)
        return self.report

    def _step(self, number: int, message: Any, version: int) -> None:
        info = message_info(type(message))
        name = info.name.removesuffix("Request")
        for group in _groups_told_of(message):
            self._until_rebalanced(group)
        kafka, hutong = self._both(number, message, version)
        if number in self.trace:
            print(number, version, message, "\n  kafka: ", kafka, "\n  hutong:", hutong)
        self.report.sent += 1
        self.report.by_api[name] += 1
        _collect_codes(kafka, self.report.error_codes[name])
        for difference in differences(kafka, hutong):
            reason = next((meant.why for meant in MEANT if meant.covers(name, difference)), None)
            if reason is None:
                self.report.unexplained.append((number, name, version, message, difference))
            else:
                self.report.meant[reason] += 1
        if info.api_key in CHANGING_TOPICS:
            self._settle()
        if info.api_key in ENDING_TRANSACTIONS:
            self._until_ended()
        if info.api_key in CHANGING_GROUPS:
            self._until_rebalanced(message.group_id)

    def _both(self, number: int, message: Any, version: int) -> tuple[Tree, Tree]:
        self.kafka.send(message, version)
        self.hutong.send(message, version)
        kafka = self._when_ready(self.kafka, number, message, version)
        return kafka, self._when_ready(self.hutong, number, message, version)

    def _when_ready(self, side: Side, number: int, message: Any, version: int) -> Tree:
        answers = [side.answer(number, message, version)]

        def is_ready() -> bool:
            if not _codes_of(answers[-1]) & NOT_READY:
                return True
            answers.append(side.ask(number, message, version))
            return False

        _wait(is_ready)
        return answers[-1]

    def _settle(self) -> None:
        """Kafka's broker learns of topics a moment after its controller has answered."""
        _wait(lambda: _public(self.kafka.topics()) == _public(self.hutong.topics()))

    def _until_ended(self) -> None:
        """Kafka answers the end of a transaction before its markers are written."""
        request = DescribeTransactionsRequest(TRANSACTIONAL_IDS)

        def are_ended() -> bool:
            answers = [side.ask(-1, request, 0) for side in (self.kafka, self.hutong)]
            states = [each["transaction_state"] for answer in answers for each in answer["transaction_states"]]
            return not any(state.startswith("Prepare") for state in states)

        _wait(are_ended)

    def _until_rebalanced(self, group: str) -> None:
        """Whoever does not come back within the time for a rebalance is dropped: by each server's own clock."""
        request = DescribeGroupsRequest([group])

        def portrait(side: Side) -> tuple[str, int]:
            (told,) = side.ask(-1, request, 0)["groups"]
            return told["group_state"], len(told["members"])

        def are_alike() -> bool:
            kafka, hutong = portrait(self.kafka), portrait(self.hutong)
            return kafka == hutong and kafka[0] != "PreparingRebalance"

        _wait(are_alike, REBALANCE_S_MAX)

    def _until_ready(self, side: Side, kind: int) -> None:
        def is_ready() -> bool:
            answer = side.ask(-1, FindCoordinatorRequest(key="red", key_type=kind), 2)
            return answer == CLOSED or answer["error_code"] not in NOT_READY

        _wait(is_ready)


def _wait(is_so: Callable[[], bool], deadline_s: float = SETTLE_S_MAX) -> None:
    """Returns when it is, or after a while: what differs then is a difference to report."""
    with contextlib.suppress(AssertionError):
        until(is_so, deadline_s=deadline_s, between_s=BETWEEN_S)


def _groups_told_of(message: Any) -> list[str]:
    """Classic groups by whose state the answer goes."""
    if isinstance(message, ListGroupsRequest):
        return GROUPS
    if message_info(type(message)).api_key not in TELLING_OF_GROUPS:
        return []
    fields = ("group_id", "groups", "groups_names")
    named = next(getattr(message, field) for field in fields if hasattr(message, field))
    return [group for group in ([named] if isinstance(named, str) else named) if group in GROUPS]


def _public(topics: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in topics.items() if not name.startswith("__")}


def _codes_of(tree: Tree) -> set[int]:
    codes: set[int] = set()
    _collect_codes(tree, codes)
    return codes


def _collect_codes(tree: Tree, codes: set[int]) -> None:
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key == "error_code":
                codes.add(value)
            else:
                _collect_codes(value, codes)
    elif isinstance(tree, list):
        for item in tree:
            _collect_codes(item, codes)


def explain(report: Report, show: int = 3) -> str:
    """The differences without a reason, the most frequent first, with examples of each."""
    grouped: dict[tuple[str, str], list[tuple[int, int, Any, Difference]]] = defaultdict(list)
    for number, name, version, message, difference in report.unexplained:
        grouped[name, difference.path].append((number, version, message, difference))
    lines = []
    for (name, path), found in sorted(grouped.items(), key=lambda item: -len(item[1])):
        lines.append(f"{len(found):5d}  {name}  {path or '(whole)'}")
        for number, version, message, difference in found[:show]:
            lines.append(
                f"       #{number} v{version} kafka={_short(difference.kafka)} hutong={_short(difference.hutong)}"
            )
            lines.append(f"           {_short(message, 400)}")
    meant = sum(report.meant.values())
    lines.append(f"{report.sent} requests; differences: {len(report.unexplained)} without a reason, {meant} meant")
    return "\n".join(lines)


def _short(value: Any, length: int = 160) -> str:
    text = repr(value)
    return text if len(text) <= length else text[: length - 3] + "..."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kafka")
    parser.add_argument("hutong")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--only", type=int, nargs="*", help="send these APIs alone")
    parser.add_argument("--without", type=int, nargs="*", default=[], help="leave these APIs out")
    parser.add_argument("--trace", type=int, nargs="*", default=[], help="show these steps whole")
    parser.add_argument("--show", type=int, default=3, help="examples of each difference")
    options = parser.parse_args()
    comparison = Comparison(options.kafka, options.hutong)
    comparison.trace = frozenset(options.trace)
    comparison.prepare()
    report = comparison.run(options.seed, options.count, frozenset(options.only or APIS) - frozenset(options.without))
    comparison.close()
    print(explain(report, options.show))
    codes = sorted({code for found in report.error_codes.values() for code in found})
    print(f"{len(report.by_api)} APIs, error codes seen: {codes}")


if __name__ == "__main__":
    main()
