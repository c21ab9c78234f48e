"""Discovery: what is bound here, what it can, how it does. For callers in the process and, as a service, for others.

Knows no transport: the service is bound like any other.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Struct

from hutong.rpc.descriptions.description import MethodDescription, ResultKind, ServiceDescription, service
from hutong.rpc.errors import ServiceError
from hutong.rpc.figures import ServiceStatistics

if TYPE_CHECKING:
    from hutong.rpc.serving.binding import Binding, Registry

DISCOVERY_ADDRESS = "hutong.rpc"
NO_SUCH_SERVICE_CODE = 404


class NoSuchService(ServiceError):
    """Nothing is bound at the address that was asked about."""

    code = NO_SUCH_SERVICE_CODE


class ServiceEntry(Struct, frozen=True):
    """One address, in short."""

    address: str
    name: str
    version: str
    instances: int
    actions: list[str]


class MethodDetails(Struct, frozen=True):
    """One method, for people and programs; the schemas are JSON Schema."""

    name: str
    signature: str
    kind: str
    documentation: str
    arguments_schema: dict[str, Any]
    result_schema: dict[str, Any]


class ErrorDetails(Struct, frozen=True):
    code: int
    name: str
    documentation: str


class ServiceDetails(Struct, frozen=True):
    """One service."""

    address: str
    name: str
    version: str
    documentation: str
    methods: list[MethodDetails]
    errors: list[ErrorDetails]


@service(DISCOVERY_ADDRESS, errors=[NoSuchService])
class Discovery(Protocol):
    """A directory of the services bound here."""

    async def services(self) -> list[ServiceEntry]:
        """All of them, by address; without references and streams."""
        ...

    async def describe(self, address: str) -> ServiceDetails:
        """Describe the service at an address. Fails with 404."""
        ...

    async def statistics(self, address: str | None = None) -> list[ServiceStatistics]:
        """Return the calls of each method: counts, successes, times."""
        ...


class RegistryDiscovery:
    """Implements `Discovery` over a registry."""

    def __init__(self, registry: "Registry") -> None:
        self._registry = registry

    async def services(self) -> list[ServiceEntry]:
        return entries_of(self._registry)

    async def describe(self, address: str) -> ServiceDetails:
        bindings = _by_address(self._registry).get(address)
        if bindings is None:
            raise NoSuchService(f"no service is bound at {address!r} here")
        return details_of(address, bindings[0].description)

    async def statistics(self, address: str | None = None) -> list[ServiceStatistics]:
        return [one for one in all_statistics(self._registry) if address is None or one.address == address]


def entries_of(registry: "Registry") -> list[ServiceEntry]:
    return [
        ServiceEntry(
            address,
            bindings[0].description.name,
            bindings[0].description.version,
            sum([len(binding.dispatchers) for binding in bindings]),
            list(bindings[0].description.methods),
        )
        for address, bindings in _by_address(registry).items()
    ]


def all_statistics(registry: "Registry") -> list[ServiceStatistics]:
    from hutong.rpc.serving.binding import statistics_of

    return [
        statistics_of(address, bindings[0].description, [one for binding in bindings for one in binding.dispatchers])
        for address, bindings in _by_address(registry).items()
    ]


def details_of(address: str, description: ServiceDescription) -> ServiceDetails:
    return ServiceDetails(
        address,
        description.name,
        description.version,
        description.documentation,
        [_method(method) for method in description.methods.values()],
        [_error(error) for error in description.errors.values()],
    )


def _method(method: MethodDescription) -> MethodDetails:
    kind = method.result_type if method.result_shape is None else method.wire_type
    result = {} if method.kind is ResultKind.REFERENCE else _schema(kind)
    return MethodDetails(
        method.name, method.signature, method.kind.value, method.documentation, _schema(method.arguments_type), result
    )


def _error(error: type[ServiceError]) -> ErrorDetails:
    return ErrorDetails(error.code, error.__name__, (vars(error).get("__doc__") or "").strip())


def _schema(kind: Any) -> dict[str, Any]:
    try:
        return msgspec.json.schema(kind)
    except (TypeError, ValueError, RecursionError):  # a type that JSON Schema has no words for
        return {}


def _by_address(registry: "Registry") -> "dict[str, list[Binding]]":
    found: dict[str, list[Binding]] = {}
    bindings: Iterable[Binding] = list(registry.bindings)
    for binding in sorted(bindings, key=lambda one: one.address):
        first = found.setdefault(binding.address, [binding])[0]
        if first is not binding and first.description is binding.description:
            found[binding.address].append(binding)
    return found
