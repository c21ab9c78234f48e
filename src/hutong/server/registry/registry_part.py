"""The schema registry as a part of a node with a broker.

Decides nothing.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from hutong.broker.topics.internal_topics import OwnTopic
from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, OwnerGone, Refused
from hutong.foundation.waiting.pending import settle_future
from hutong.registry import routes
from hutong.registry.checks import check_installed
from hutong.registry.demands import RegisteredSchemas
from hutong.registry.forwarding import ClusterChanges
from hutong.registry.record_schemas import RegistrySchemas
from hutong.registry.rights import SubjectRights
from hutong.registry.routes import RegistryRoutes
from hutong.registry.service import RegistryService
from hutong.registry.store import TOPIC, TOPIC_CONFIG, SchemaStore
from hutong.registry.values import RegistryCode
from hutong.registry.writer import RegistryWriter
from hutong.runtime.verticles import Verticle
from hutong.server.broker.broker_part import BrokerPart
from hutong.server.composition import ComposedNode, NodePart
from hutong.server.configuration.settings import Address, Settings
from hutong.server.listeners.binding import bound
from hutong.server.listeners.certificates import Certificates, certificates_of
from hutong.server.listeners.exposure import check_schema_registry
from hutong.server.listeners.own_names import visitors_of
from hutong.server.registry.own_api import OwnRegistryApi
from hutong.web.admission import Everybody
from hutong.web.driver import WebAdmission
from hutong.web.limits import HttpLimits, WebLimits
from hutong.web.server import WebServer

if TYPE_CHECKING:
    from hutong.broker.broker import Broker
    from hutong.broker.topics.partition import Topic
    from hutong.runtime.threads.offload import ClosableOffload

BODY_BYTES_MAX: Final = 2 * 1024 * 1024  # a schema of 1 MiB, escaped
CHECKS_MAX: Final = 1_000  # schemas that wait for the worker
WANTED: Final = OwnTopic(TOPIC, 1, TOPIC_CONFIG)


class RegistryPart(NodePart):
    """Serves clients of a schema registry."""

    def __init__(self, broker: BrokerPart) -> None:
        self._broker = broker

    def check(self) -> None:
        check_schema_registry(self._broker.settings)
        check_installed()

    async def open(self, node: ComposedNode) -> None:
        broker = self._broker.monitor.sources.broker
        assert broker is not None, "the broker is open"
        verticle = RegistryVerticle(self._broker, broker, node.runtime.clock)
        await node.deploy("schema-registry", verticle)
        self._broker.monitor.stalls.wake_by(verticle.call_at_traffic)
        self._broker.monitor.sources.web["schema-registry"] = verticle.server
        node.addresses.schema_registry = verticle.listens_at
        node.record_schemas = verticle.record_schemas
        node.registry_api = verticle.own_api


class RegistryVerticle(Verticle):
    """The listener. `listens_at` has the port that was bound, once it has started.

    Its start raises UsageError for an address that cannot be used.
    """

    listens_at: Address
    record_schemas: RegistrySchemas
    own_api: OwnRegistryApi

    def __init__(self, part: BrokerPart, broker: "Broker", clock: Clock) -> None:
        self._part = part
        self._settings: Settings = part.settings
        self._broker = broker
        self._clock = clock
        self._certificates: Certificates | None = None
        self._workers: ClosableOffload | None = None
        self._changes: ClusterChanges | None = None
        self._known: RegisteredSchemas | None = None
        self._server: WebServer | None = None

    async def start(self) -> None:
        section, loop, wheel = self._settings.schema_registry, self.context.loop, self.context.home.wheel
        assert section.listen is not None, "the part is made where the listener is asked for"
        self._certificates = certificates_of(section, self._clock, wheel, self._settings.tls.reload_interval_ms)
        tls = None
        if self._certificates is not None:
            tls = self._certificates.source()
            self._certificates.watch()
        self._workers = self._part.ports.make_offload(loop, 1, "hutong-schemas", CHECKS_MAX)
        store = SchemaStore(self._broker, self._topic)
        service = self._part.monitor.sources.schemas = RegistryService(store, self._workers)
        writer = RegistryWriter(store, service)
        self._changes = changes = ClusterChanges(self._broker.cluster, store, writer, self._clock, wheel)
        changes.start()
        self._broker.schema_gate.known = self._known = RegisteredSchemas(store)
        rights = SubjectRights(self._broker.authorizer)
        self.record_schemas = RegistrySchemas(service, changes.carry_out, rights)
        served = RegistryRoutes(
            service, changes.carry_out, rights, self._broker.identity.cluster_id, version("hutong")
        ).routes
        self.own_api = OwnRegistryApi(served)
        self._server = WebServer(
            served,
            loop,
            clock=self._clock,
            wheel=wheel,
            limits=WebLimits(HttpLimits(body_bytes_max=BODY_BYTES_MAX), connections_max=section.max_connections),
            admission=self._admission(),
            refused=routes.refused,
            visitors=visitors_of(
                self._settings, section.listen, hosts=section.hosts, is_secure=section.tls_certificate is not None
            ),
            open_socket=self._part.ports.open_socket,
        )
        binding = self._server.listen(section.listen.host, section.listen.port, tls)
        self.listens_at = await bound(section.listen, binding, "with --schema-registry")

    async def stop(self) -> None:
        if self._certificates is not None:
            self._certificates.close()
        if self._server is not None:
            await self._server.close()
        if self._known is not None:
            self._broker.schema_gate.known = None
            self._known.close()
        if self._changes is not None:
            self._changes.close(OwnerGone("the node is stopping"))
        if self._workers is not None:
            self._workers.close()

    @property
    def server(self) -> WebServer:
        """The server, once it has started."""
        assert self._server is not None, "it listens"
        return self._server

    def call_at_traffic(self, callback: Callable[[], None]) -> None:
        """Call it once, with the next bytes that a client's connection reads."""
        self.server.call_at_traffic(callback)

    def _admission(self) -> WebAdmission:
        section = self._settings.schema_registry
        if section.authentication == "basic":
            return self._part.web_users()
        if section.tls_client_ca is None:
            return Everybody()
        from hutong.security.certificate_principals import CertificatePrincipals  # late: few ask for certificates

        principals = CertificatePrincipals(self._settings.tls.principal_mapping_rules)
        return Everybody(lambda peer: principals.principal_of(peer.certificate_der))

    async def _topic(self) -> "Topic":
        """The topic, made where it is missing. Raises Refused."""
        found: asyncio.Future[Topic] = self.context.loop.create_future()
        self._broker.topic_creation.get_or_create_own(WANTED, partial(settle_future, found))
        try:
            return await found
        except HutongError as error:
            raise Refused(RegistryCode.STORE, f"The topic {TOPIC} cannot be made: {error}") from error
