"""Figures of RocketMQ's requests, counted where they are answered."""

from collections import Counter

from hutong.broker.rocketmq.signatures import Signatures
from hutong.remoting.channels.answers import ReadyAnswer
from hutong.wire.rocketmq.command import Command


class RocketFigures:
    """Figures: `requests_total` by code, `refused_total` by code and code of the answer, bytes of bodies by code."""

    def __init__(self, signatures: Signatures) -> None:
        self.signatures = signatures
        self.requests_total: Counter[int] = Counter()
        self.refused_total: Counter[tuple[int, int]] = Counter()
        self.received_bytes_total: Counter[int] = Counter()
        self.sent_bytes_total: Counter[int] = Counter()
        self.throttled_total = 0  # requests that waited, or were refused, for a quota
        self.throttled_ms_total = 0

    def begun(self, request: Command) -> None:
        """Note a request."""
        self.received(request.code, len(request.body))

    def received(self, code: int, body_bytes: int) -> None:
        """Note a request by its code and the size of its body."""
        self.requests_total[code] += 1
        self.received_bytes_total[code] += body_bytes

    def answered(self, request: Command, answer: ReadyAnswer) -> None:
        """Note its answer. One that has no messages, or moves a reader, is no refusal."""
        if not isinstance(answer, Command):
            return
        self.sent_bytes_total[request.code] += len(answer.body)
        if answer.code:
            self.refused_total[request.code, answer.code] += 1

    def stored(self, code: int, answer: int) -> None:
        """Note the answer to a message, which has no body."""
        if answer:
            self.refused_total[code, answer] += 1
