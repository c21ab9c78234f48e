"""The routes of a node's own pages: metrics for those with the credentials, health for everybody.

Knows no page's content.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from hutong.foundation.errors import ExitCode, UsageError
from hutong.server.configuration.sections.network import MetricsSettings
from hutong.server.monitoring.health import Health
from hutong.server.monitoring.slices import SlicedPage
from hutong.web.admission import Everybody, OneUser
from hutong.web.answers import WebAnswer, WebRefusal, text
from hutong.web.driver import WebAdmission
from hutong.web.limits import KIBIBYTE, MEBIBYTE, HttpLimits, WebLimits
from hutong.web.requests import WebRequest
from hutong.web.routes import WebRoute

LIMITS: Final = WebLimits(
    http=HttpLimits(head_bytes_max=8 * KIBIBYTE, body_bytes_max=KIBIBYTE),
    connections_max=16,  # each may keep its pages from being forgotten, by not reading them
    connections_per_ip_max=16,
    receiving_bytes_max=MEBIBYTE,
    request_ms_max=5_000,
    drain_ms_max=1_000,
)


def admission_of(settings: MetricsSettings) -> WebAdmission:
    """Raises UsageError for a name that HTTP's Basic scheme cannot say (RFC 7617, 2)."""
    if not settings.password:
        return Everybody()
    if not settings.user or ":" in settings.user:
        raise UsageError("metrics.user must be a name without a colon where metrics.password is set.", ExitCode.CONFIG)
    return OneUser(settings.user, settings.password)


def routes(by_detail: Mapping[str, SlicedPage], health: Health, loop: asyncio.AbstractEventLoop) -> list[WebRoute]:
    """Health pages need no credentials: orchestrators probe without any, and the pages show no data.

    `by_detail` has the pages of metrics by the query `detail`, and under the empty text the one without it.
    """

    async def show_metrics(request: WebRequest) -> WebAnswer:
        # A scraper may add queries of its own, so what is unknown is no error.
        metrics = by_detail.get(request.query.get("detail", ""), by_detail[""])
        made: asyncio.Future[list[bytes] | None] = loop.create_future()
        # A client that went away has cancelled the future, and others may wait for the same page.
        metrics.ask(lambda pieces: None if made.done() else made.set_result(pieces))
        pieces = await made
        if pieces is None:
            raise WebRefusal(500, "the page could not be made; the log says why")
        return WebAnswer(200, content_type=metrics.content_type, pieces=pieces)

    def show_life(request: WebRequest) -> WebAnswer:
        return text(200, "ok\n")

    def show_readiness(request: WebRequest) -> WebAnswer:
        reasons = health.reasons()
        return text(503, "".join(f"{reason}\n" for reason in reasons)) if reasons else text(200, "ready\n")

    return [
        WebRoute("GET", "/metrics", show_metrics),
        WebRoute("GET", "/healthz", show_life, is_public=True),
        WebRoute("GET", "/readyz", show_readiness, is_public=True),
    ]
