"""The methods that a gRPC server offers, by the paths under which clients call them.

Strategy: a service is mapped at its first call, so that binding needs no notification and unused services cost nothing.
One without a mapping is logged once and left out. An offered method stays known after its service is unbound, up to a
bound: its callers get UNAVAILABLE instead of UNIMPLEMENTED.

Knows no server and no calls.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from hutong.foundation.errors import LimitExceeded, UsageError
from hutong.rpc.descriptions.description import ServiceDescription
from hutong.rpc.grpc.proto.conversion import MethodConversion, ServiceConversion
from hutong.rpc.grpc.proto.names import package_of
from hutong.rpc.grpc.serving.statuses import status_of

OFFERS_MAX: Final = 2_000
"""Services of one server. Each has a pool of descriptors and classes of its own, made in one or two milliseconds."""
_log = logging.getLogger("hutong.rpc.grpc")

Bound = Callable[[], Iterable[tuple[str, ServiceDescription]]]
"""The services that are bound now, with their addresses."""


@dataclass(slots=True)
class Offer:
    """One method at one address. `handler` is the server's, once there is one."""

    address: str
    service: ServiceDescription
    conversion: MethodConversion
    handler: Any = None


class Offers:
    """Methods by path, services by full name."""

    def __init__(self, bound: Bound = tuple) -> None:
        self._bound = bound
        self._methods: dict[str, Offer] = {}
        self._services: dict[str, ServiceConversion] = {}
        self._known: dict[tuple[str, type], None] = {}  # looked at already: offered, or refused

    def add(self, service: ServiceDescription, address: str | None = None, package: str | None = None) -> str:
        """Offer a service; returns its full name.

        Raises UsageError where it has no mapping, or where another service has that name; LimitExceeded.
        """
        address = address or service.address
        if len(self._services) >= OFFERS_MAX:
            self._forget_unbound()
        if len(self._services) >= OFFERS_MAX:
            raise LimitExceeded("grpc_offers_max", OFFERS_MAX)
        for error in service.errors.values():
            status_of(error)
        conversion = ServiceConversion(service, package or package_of(address))
        name = conversion.schema.full_name
        if name in self._services:
            raise UsageError(f"Two services would be called {name} over gRPC; give one of them another package.")
        self._services[name] = conversion
        self._known[address, service.protocol] = None
        for path, method in conversion.methods.items():
            self._methods[path] = Offer(address, service, method)
        return name

    def find(self, path: str) -> Offer | None:
        """The method of a path (`/package.Service/Method`)."""
        found = self._methods.get(path)
        if found is None:
            self._look(path.removeprefix("/").rpartition("/")[0])
            found = self._methods.get(path)
        return found

    @property
    def names(self) -> list[str]:
        self._look()
        return list(self._services)

    @property
    def pools(self) -> Iterator[Any]:
        """The descriptor pools of all services."""
        self._look()
        return iter([service.pool for service in self._services.values()])

    def _look(self, name: str | None = None) -> None:
        """Offer what has been bound since the last time: the service of that name, or all."""
        for address, service in list(self._bound()):
            key = (address, service.protocol)
            if key in self._known or (name is not None and _name_of(address, service) != name):
                continue
            try:
                self.add(service, address)
            except (UsageError, LimitExceeded) as error:
                self._known[key] = None
                _log.warning("the service at %s is not offered over gRPC: %s", address, error)

    def _forget_unbound(self) -> None:
        """Make room: those that are not bound now are unknown again."""
        bound = {(address, service.protocol) for address, service in self._bound()}
        gone = {
            path: offer for path, offer in self._methods.items() if (offer.address, offer.service.protocol) not in bound
        }
        for path in gone:
            del self._methods[path]
            self._services.pop(path.removeprefix("/").rpartition("/")[0], None)
        self._known = {key: None for key in self._known if key in bound}


def _name_of(address: str, service: ServiceDescription) -> str | None:
    """The full name that the service would have, without looking at its methods. None if it can have none."""
    try:
        return f"{package_of(address)}.{service.name.rpartition('.')[2]}"
    except UsageError:
        return None
