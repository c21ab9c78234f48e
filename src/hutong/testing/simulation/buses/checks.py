"""The promises of a clustered bus, checked against a history.

    one         a message that is sent has one receiver at most
    churn       a listener that is known and stays gets every publication, also while others come and go; and where
                nothing at the address changes, a message that is sent has a receiver and a request is not in vain
    requests    each ends once, in time; one at a node that has died ends by the end of that node's session
    the end     after the faults all nodes know the same listeners

The order of messages, and that nobody receives after it has unregistered, is seen at once, in the history.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from hutong.bus import FailureType
from hutong.testing.simulation.buses.history import BusHistory, ListenerLife, SentMessage
from hutong.testing.simulation.buses.plan import SESSION_MS, BusPlan

DELIVERY_US: Final = 1_000_000
"""From a publication to its handling, where nothing is disturbed."""
EXPIRY_LATE_US: Final = 200_000
"""Timeouts are late by an eighth of their time (`foundation/waiting/numbered.py`), and by this at most."""
_NEWS_LATE_US: Final = 150_000  # of a loop that hears them
_NO_HANDLERS: Final = FailureType.NO_HANDLERS.name
_ERROR: Final = FailureType.ERROR.name
_Places = Mapping[str, Mapping[str, int]]


def check_history(history: BusHistory, plan: BusPlan) -> Iterator[str]:
    """The promises that were broken, a sentence for each. Asked when the simulation is over."""
    check = _MessageCheck(history, plan)
    for message in history.messages.values():
        yield from check.check(message)


def check_knowledge(known: Mapping[str, _Places], offered: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Compare what nodes know of others with what these offer: numbers of listeners, by node and address."""
    for node, places in sorted(known.items()):
        expected: dict[str, dict[str, int]] = defaultdict(dict)
        for other in sorted(offered.keys() - {node}):
            for address, count in offered[other].items():
                expected[address][other] = count
        for address in sorted({*places, *expected}):
            seen, there = dict(places.get(address, {})), expected.get(address, {})
            if seen != there:
                yield f"{node} knows the listeners {seen} at {address} after all faults, and there are {there}"


class _MessageCheck:
    def __init__(self, history: BusHistory, plan: BusPlan) -> None:
        self._history = history
        self._plan = plan
        self._news_us = plan.news_ms_max * 1_000 + _NEWS_LATE_US
        self._at: dict[str, list[ListenerLife]] = defaultdict(list)
        for registration in history.registrations.values():
            self._at[registration.address].append(registration)

    def check(self, message: SentMessage) -> Iterator[str]:
        if message.timeout_us is not None:
            yield from self._check_ends(message)
        if message.is_publication:
            yield from self._check_publication(message)
            return
        if len(message.receipts) > 1:
            yield f"{message.name} was received by {message.receipts[0][0]} and by {message.receipts[1][0]}"
        if message.is_refused or not self._is_undisturbed(message):
            return
        if not message.receipts:
            yield f"{message.name} has no receiver, and nothing has changed at {message.address}"
        for at_us, outcome in message.ends:
            node = self._history.registrations[message.receipts[0][0]].node if message.receipts else message.node
            # One that is not answered may still wait when something happens.
            is_calm = self._history.is_calm(node, message.node, message.at_us, at_us)
            if outcome in (_NO_HANDLERS, _ERROR) and is_calm:
                yield f"{message.name} hears of {outcome}, and nothing has changed at {message.address}"

    def _check_publication(self, message: SentMessage) -> Iterator[str]:
        takers = {listener for listener, _ in message.receipts}
        # One that raised may have reached some.
        if message.is_refused:
            return
        for each in self._at[message.address]:
            if self._has_to_receive(each, message) and each.name not in takers:
                yield f"{each.name} has missed {message.name}, and nothing has touched either node"

    def _has_to_receive(self, each: ListenerLife, message: SentMessage) -> bool:
        until_us = message.at_us + DELIVERY_US
        if each.may_discard or (each.gone_us is not None and each.gone_us < until_us):
            return False
        # A consumer of the sender's own node is known at once, and hears also what is for its node alone.
        if each.node == message.node:
            is_known = each.at_us < message.at_us
        else:
            ready_us = None if each.local_only else each.ready_us
            is_known = ready_us is not None and ready_us + self._news_us < message.at_us
        return is_known and self._history.is_calm(each.node, message.node, message.at_us, until_us)

    def _is_undisturbed(self, message: SentMessage) -> bool:
        """True where the same listeners are known before and after a message, and nothing disturbs them."""
        begin_us, until_us = message.at_us - self._news_us, message.at_us + DELIVERY_US
        there = [
            each
            for each in self._at[message.address]
            if self._known_until_us(each) >= begin_us
            and each.at_us <= until_us
            and (not each.local_only or each.node == message.node)
        ]
        return bool(there) and all(
            each.ready_us is not None and each.ready_us < begin_us and self._has_to_receive(each, message)
            for each in there
        )

    def _known_until_us(self, each: ListenerLife) -> int:
        """The time until which nodes may send to it. One whose node was killed keeps its entry with the session."""
        if each.gone_us is None:
            return self._history.now_us
        return each.gone_us + self._news_us + (0 if each.is_unregistered else SESSION_MS * 1_000)

    def _check_ends(self, message: SentMessage) -> Iterator[str]:
        timeout_us = message.timeout_us
        assert timeout_us is not None
        if len(message.ends) > 1:
            yield f"{message.name} has ended {len(message.ends)} times"
        history = self._history
        latest_us = message.at_us + timeout_us + timeout_us // 8 + EXPIRY_LATE_US
        for listener, _ in message.receipts:
            died_us = history.deaths.get(history.registrations[listener].process)
            if died_us is not None:
                latest_us = min(latest_us, max(died_us, message.at_us) + SESSION_MS * 1_000 + self._news_us)
        has_died = history.deaths.get(message.process, latest_us) < latest_us
        if message.is_refused or has_died or history.now_us < latest_us:
            return
        # Its node may have been stopped, or out of reach for what would have ended it.
        if not history.is_awake(message.node, message.at_us, latest_us):
            return
        if not message.ends:
            yield f"{message.name} has not ended"
        elif message.ends[0][0] > latest_us:
            yield f"{message.name} has ended {(message.ends[0][0] - latest_us) // 1_000} ms too late"
