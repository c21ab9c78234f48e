"""The way of the rooms of moves and drains to the brokers: the port, the kind of the cluster, refusals, and the audit.

Decides nothing about places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from confluent_kafka import KafkaError

from hutong.console.nodes.moving import asking
from hutong.console.nodes.moving.plan import CONFLICT
from hutong.console.rights import FORBIDDEN
from hutong.foundation.errors import PeerError, Refused
from hutong.rest.errors import refusal_of
from hutong.web.answers import WebAnswer, WebRefusal, json

if TYPE_CHECKING:
    from collections.abc import Callable

    from hutong.console.desk import ConsoleDesk
    from hutong.console.nodes.moving.operators import OperatorConnection, OperatorRequests
    from hutong.console.nodes.moving.plan import MovePlan
    from hutong.web.requests import WebRequest

T = TypeVar("T")
FAILURES_SHOWN_MAX: Final = 100
_WITHOUT: Final = (
    "The consoles of `hutong serve` and `hutong console` move replicas. This one is part of a program, "
    "whose Kafka client cannot send these requests."
)


class MoveAccess:
    """`operators` is None in a program that lacks them."""

    def __init__(self, desk: ConsoleDesk, operators: OperatorRequests | None) -> None:
        self._desk = desk
        self._operators = operators
        self._is_hutong: bool | None = True if desk.node is not None else None

    async def asked(self, request: WebRequest, work: Callable[[OperatorConnection, bool], T]) -> tuple[T, bool]:
        """The outcome of `work`, which blocks, with a connection of this user; and True for a cluster of Hutong.

        Raises WebRefusal.
        """
        operators = self._operators
        if operators is None:
            raise WebRefusal(404, _WITHOUT)
        properties = (await self._desk.account(request)).properties

        def run() -> tuple[T, bool]:
            try:
                with operators.opened(properties) as connection:
                    is_hutong = self._kind(connection)
                    return work(connection, is_hutong), is_hutong
            except WebRefusal:
                raise
            except Refused as refused:
                raise _refusal_of(refused) from None
            except PeerError as error:
                raise WebRefusal(503, f"The brokers do not answer: {error}.", 50301) from None

        return await self._desk.blocking(run)

    async def begin(self, request: WebRequest, plan: MovePlan, mark: str, change: str, target: str) -> WebAnswer:
        """Begin all steps of a plan, and record them. Raises WebRefusal(409) for a plan with another mark."""
        check_mark(plan, mark)
        failures, _ = await self.asked(request, lambda connection, _: asking.move_all(connection, plan.steps))
        before = {step.unit.name: step.unit.replicas for step in plan.steps}
        after = {
            step.unit.name: {
                "replicas": step.target,
                "partitions": len(step.asked),
                "bytes_per_second": step.bytes_per_second or None,
            }
            for step in plan.steps
        }
        await self._desk.record(request, change, target, before, {"moves": after, "failed": failures})
        return json(outcome(len(plan.steps), failures))

    def _kind(self, connection: OperatorConnection) -> bool:
        """True for Hutong. Asked once: a console has one cluster all its life."""
        if self._is_hutong is None:
            self._is_hutong = connection.asks_hutong()
        return self._is_hutong


def check_mark(plan: MovePlan, mark: str) -> None:
    """Raises WebRefusal(409) for a plan that is another than the preview showed."""
    if plan.mark != mark:
        raise WebRefusal(409, "The cluster has changed since the preview. Look at it again.", CONFLICT)


def outcome(asked: int, failures: asking.Failures) -> dict[str, Any]:
    """The outcome of a change for people."""
    shown = [{"name": name, "error": error} for name, error in sorted(failures.items())[:FAILURES_SHOWN_MAX]]
    return {"begun": max(0, asked - len(failures)), "failed": shown, "failed_count": len(failures)}


def _refusal_of(refused: Refused) -> WebRefusal:
    by_code = refusal_of(KafkaError(refused.code))
    status, code = by_code.status, by_code.code
    if status == 401:
        status, code = 403, FORBIDDEN  # the session is well: these requests alone are not let in
    elif status == 500:
        status, code = 409, CONFLICT  # a code without a status of its own refuses what was asked for: it is no fault
    return WebRefusal(status, f"{str(refused).rstrip('.')}.", code)
