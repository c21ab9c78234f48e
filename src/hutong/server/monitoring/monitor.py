"""The listener for metrics and health as a verticle: deployed before the broker, undeployed after it.

Strategy: an acceptor of its own on the broker's loop, so that a crowd of scrapers takes no connection from clients, and
each figure is read between two steps of the loop.
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from hutong.foundation.clock import Clock
from hutong.runtime.verticles import Verticle
from hutong.server.configuration.sections.network import MetricsSettings
from hutong.server.configuration.settings import Address
from hutong.server.listeners.binding import bound
from hutong.server.monitoring.exposition import CONTENT_TYPE
from hutong.server.monitoring.health import Health
from hutong.server.monitoring.metrics import exposition
from hutong.server.monitoring.slices import SlicedPage
from hutong.server.monitoring.sources import Sources
from hutong.server.monitoring.survey.result import SurveyLimits

if TYPE_CHECKING:
    from hutong.server.listeners.certificates import Certificates
    from hutong.web.server import WebServer


class Monitor(Verticle):
    """Shows `sources` and their health. `health.is_serving` is the node's to set.

    `listens_at` has the port that was bound, once it has started; None if there is no address to listen on. Its start
    raises UsageError.
    """

    def __init__(
        self,
        sources: Sources,
        clock: Clock,
        settings: MetricsSettings,
        limits: SurveyLimits,
        reload_interval_ms: int,
    ) -> None:
        self.sources = sources
        self.health = Health(sources.journals)
        self.listens_at: Address | None = None
        self._clock = clock
        self._settings = settings
        self._limits = limits
        self._reload_interval_ms = reload_interval_ms
        self._server: WebServer | None = None
        self._certificates: Certificates | None = None

    async def start(self) -> None:
        settings = self._settings
        address = settings.listen
        if address is None:
            return
        from hutong.server.monitoring import pages  # late, with all of HTTP: other starts are shorter
        from hutong.web.server import WebServer

        admission = pages.admission_of(settings)
        if settings.tls_certificate is not None:
            from hutong.server.listeners.certificates import certificates_of  # late: other starts are shorter

            wheel = self.context.home.wheel
            self._certificates = certificates_of(settings, self._clock, wheel, self._reload_interval_ms)
        tls = None
        if self._certificates is not None:
            tls = self._certificates.source()
            self._certificates.watch()
        loop = self.context.loop
        brief, full = self.page(is_brief=True), self.page(is_brief=False)
        by_detail = {"": brief if settings.detail == "brief" else full, "brief": brief, "full": full}
        self._server = WebServer(
            pages.routes(by_detail, self.health, loop),
            loop,
            clock=self._clock,
            wheel=self.context.home.wheel,
            limits=pages.LIMITS,
            admission=admission,
        )
        binding = self._server.listen(address.host, address.port, tls)
        self.listens_at = await bound(address, binding, "with --metrics")

    async def stop(self) -> None:
        if self._certificates is not None:
            self._certificates.close()
        if self._server is not None:
            await self._server.close()

    def page(self, *, is_brief: bool) -> SlicedPage:
        """A page of metrics apart from those that are served."""
        return SlicedPage(partial(self._metrics, is_brief), CONTENT_TYPE, self.context.loop.call_soon)

    def _metrics(self, is_brief: bool) -> Iterator[bytes]:
        return exposition(self.sources, self._limits, is_brief=is_brief)
