"""The routes to the services of the node.

Decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hutong.console.limits import CALL_TIMEOUT_MS_MAX, SERVICES_SHOWN_MAX
from hutong.console.rights import READ_NODE, USE_BUS, check_right
from hutong.console.routes import ConsoleRoute
from hutong.foundation.errors import LimitExceeded, UsageError
from hutong.rpc.errors import CallFailed, ServiceError
from hutong.rpc.serving.discovery import details_of
from hutong.web.answers import WebAnswer, WebRefusal, json

if TYPE_CHECKING:
    from hutong.console.desk import ConsoleDesk
    from hutong.rpc.rpc import Rpc
    from hutong.web.requests import WebRequest


class ServiceCallBody(msgspec.Struct, frozen=True):
    """A call from the page: arguments by name."""

    arguments: dict[str, Any] = {}
    headers: dict[str, str] = {}
    timeout_ms: int = 10_000


class ServicePages:
    """The routes of `/api/services`."""

    def __init__(self, desk: ConsoleDesk) -> None:
        self._desk = desk

    def routes(self) -> list[ConsoleRoute]:
        one = "/api/services/{address}"
        return [
            ConsoleRoute("GET", "/api/services", self.list_services),
            ConsoleRoute("GET", one, self.show),
            ConsoleRoute("POST", f"{one}/methods/{{method}}", self.call, changes="service.call"),
        ]

    async def list_services(self, request: WebRequest) -> WebAnswer:
        """All services with the figures of their methods."""
        await check_right(self._desk, request, READ_NODE)
        node = self._desk.node
        rpc = None if node is None else node.rpc()
        found = [] if rpc is None else rpc.statistics()
        return json(
            {
                "has_services": rpc is not None,
                "at_ms": self._desk.clock.wall_ms(),
                "services": found[:SERVICES_SHOWN_MAX],
                "truncated": len(found) > SERVICES_SHOWN_MAX,
            }
        )

    async def show(self, request: WebRequest) -> WebAnswer:
        """One service: what its methods take and give, its errors, and its figures."""
        await check_right(self._desk, request, READ_NODE)
        rpc, address = self._rpc(), request.text("address")
        binding = next((each for each in rpc.registry.bindings if each.address == address), None)
        if binding is None:
            raise WebRefusal(404, f"No service is bound at {address[:200]!r} here.")
        figures = next(each for each in rpc.statistics() if each.address == address)
        return json(
            {
                "at_ms": self._desk.clock.wall_ms(),
                "details": details_of(address, binding.description),
                "statistics": figures,
            }
        )

    async def call(self, request: WebRequest) -> WebAnswer:
        """Call a method; a failure of the service is an answer, too."""
        await check_right(self._desk, request, USE_BUS)
        rpc, body = self._rpc(), request.json(ServiceCallBody)
        if not 1 <= body.timeout_ms <= CALL_TIMEOUT_MS_MAX:
            raise WebRefusal(400, f"timeout_ms is a number from 1 to {CALL_TIMEOUT_MS_MAX}.")
        address, method = request.text("address"), request.text("method")
        began_ms = self._desk.clock.monotonic_ms()
        outcome: dict[str, Any]
        try:
            call = rpc.call(address, method, body.arguments, timeout=body.timeout_ms / 1_000, headers=body.headers)
            outcome = {"result": _shown(await call)}
        except CallFailed as error:
            outcome = {"failure": _failure(error)}
        except (TypeError, ValueError, UsageError, LimitExceeded) as error:
            raise WebRefusal(400, f"The call cannot be sent: {error}") from None
        took_ms = self._desk.clock.monotonic_ms() - began_ms
        await self._desk.record(request, "service.call", f"{address}.{method}", after={"arguments": body.arguments})
        return json({**outcome, "took_ms": took_ms})

    def _rpc(self) -> Rpc:
        node = self._desk.node
        rpc = None if node is None else node.rpc()
        if rpc is None:
            raise WebRefusal(404, "This console has no services: nothing is bound in its node.")
        return rpc


def _shown(result: Any) -> Any:
    """The result as JSON has it; a stream or a reference stays with the node, and its type is all that is shown."""
    try:
        return msgspec.to_builtins(result, str_keys=True)
    except (TypeError, ValueError, RecursionError):
        return f"<{type(result).__qualname__}>"


def _failure(error: CallFailed) -> dict[str, Any]:
    code = error.code if isinstance(error, ServiceError) else None
    return {"type": type(error).__name__, "code": code, "message": error.message}
