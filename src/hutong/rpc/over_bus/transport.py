"""Calls over the event bus: requests, by the convention of Vert.x's service proxies (see bus_endpoint).

Knows no proxies. May be used on any loop and from any thread that the bus may be used from; `done` is called where the
bus calls back: in the caller's context, or on its loop.
"""

from functools import partial
from typing import Final

from hutong.bus.bus import EventBus
from hutong.bus.envelope.headers import Headers
from hutong.bus.envelope.message import Message
from hutong.bus.envelope.service_failure import ServiceFailure
from hutong.bus.errors import FailureType, ReplyError
from hutong.bus.options import DeliveryOptions
from hutong.foundation.errors import HutongError
from hutong.rpc.call import ACTION, Outcome
from hutong.rpc.calling.transport import Abandon, CallSite, Ended, OutgoingCall
from hutong.rpc.descriptions.conversion import as_names, result_from
from hutong.rpc.errors import BadReply, CallFailed, CallTimeout, Failure, NoService

_OWN_FAILURES: Final[dict[FailureType, type[CallFailed]]] = {
    FailureType.TIMEOUT: CallTimeout,
    FailureType.NO_HANDLERS: NoService,
    FailureType.ERROR: CallFailed,
}


class BusTransport:
    """Requests on one bus."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus

    def begin_call(self, call: OutgoingCall, timeout_ms: int, done: Ended) -> Abandon:
        site = call.site
        options: DeliveryOptions | None = site.cache
        if call.headers or options is None or options.timeout_ms != timeout_ms:
            pairs = ((ACTION, site.action), *site.headers, *call.headers)
            options = DeliveryOptions(
                timeout_ms / 1000, Headers(pairs), is_traced=False
            )  # the transport that traces calls adds their spans
            if not call.headers:
                site.cache = options
        reply = self._bus.request(site.address, as_names(call.arguments), options)
        reply.then(partial(_ended, site, done))
        return reply.cancel


def _ended(site: CallSite, done: Ended, outcome: Message | HutongError) -> None:
    if isinstance(outcome, Message):
        try:
            value = result_from(outcome.body, site.result_type, site.action)
        except BadReply as error:
            done(error)
        else:
            done(Outcome(value, headers=outcome.header_pairs))
    elif not isinstance(outcome, ReplyError):
        done(outcome)
    elif outcome.failure_type is FailureType.RECIPIENT_FAILURE:
        info = outcome.debug_info if isinstance(outcome, ServiceFailure) else None
        done(Outcome(failure=Failure(outcome.failure_code, outcome.message, info)))
    else:
        done(_OWN_FAILURES[outcome.failure_type](outcome.message))
