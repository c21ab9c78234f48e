"""What a door offers: which methods there are, by the paths under which gRPC calls them.

Strategy: a service is mapped when somebody first asks for something that is not known yet, so that nothing has to be
told when a service is bound. One that has no mapping is told of in the log, once, and left out. What has been offered
stays known after its service is unbound: its callers learn that nobody answers, instead of that there never was such a
method.

Knows no server and no calls.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from hutong.foundation.errors import LimitExceeded, UsageError
from hutong.rpc.description import ServiceDescription
from hutong.rpc.grpc.conversion import MethodConversion, ServiceConversion
from hutong.rpc.grpc.names import package_of
from hutong.rpc.grpc.statuses import status_of

OFFERS_MAX: Final = 10_000
"""Services of one door. Each has a pool of descriptors and classes of its own."""
_log = logging.getLogger("hutong.rpc.grpc")

Bound = Callable[[], Iterable[tuple[str, ServiceDescription]]]
"""The services that are bound now, with their addresses."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One method at one address."""

    address: str
    service: ServiceDescription
    conversion: MethodConversion


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
            self._look()
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

    def _look(self) -> None:
        """Offer what has been bound since the last time."""
        for address, service in list(self._bound()):
            if (address, service.protocol) not in self._known:
                self._known[address, service.protocol] = None
                try:
                    self.add(service, address)
                except (UsageError, LimitExceeded) as error:
                    _log.warning("the service at %s is not offered over gRPC: %s", address, error)
