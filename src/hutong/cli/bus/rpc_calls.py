"""`hutong rpc list`, `describe`, `stats` and `call`: a running node's services, over one connection.

Strategy: what is there is asked of the node's own service for that (`hutong.rpc`), so a node that answers calls can be
asked. Arguments and results are JSON; a stream is printed an item a line, as it comes.

Knows nothing of frames: `hutong.rpc.connect` does.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, TypeVar

import typer

from hutong.cli.bus.bridge_client import tls_of
from hutong.cli.bus.bus import Headers, Tls, TlsCa, TlsCertificate, headers_of
from hutong.cli.nearest import did_you_mean
from hutong.cli.options import AsDocument, AsJson
from hutong.cli.output import print_json, print_rows, printable, remark
from hutong.foundation.errors import ExitCode, LimitExceeded, UsageError

A = TypeVar("A")
DEFAULT_NODE: Final = "127.0.0.1:7100"
DISCOVERY: Final = "hutong.rpc"
NO_SUCH_SERVICE: Final = 404  # its answer where nothing is bound at the address that is asked about
STREAM_BATCH: Final = 64

NodeAddress = Annotated[
    str, typer.Option("--node", "-n", metavar="HOST:PORT", envvar="HUTONG_RPC", help="Where the node answers calls.")
]
ServiceAddress = Annotated[str, typer.Argument(metavar="ADDRESS", show_default=False)]
TimeoutMs = Annotated[int, typer.Option("--timeout", metavar="MS", min=1, max=3_600_000)]


def list_services(
    node: NodeAddress = DEFAULT_NODE,
    as_json: AsJson = False,
    tls: Tls = False,
    tls_ca: TlsCa = None,
    tls_certificate: TlsCertificate = None,
) -> None:
    """Show the services that are bound at a node."""
    found = _discovered(node, tls_of(tls_ca, tls_certificate, wanted=tls), "services")
    print_rows(found, ("address", "name", "version", "instances", "actions"), as_json=as_json)


def describe(
    address: ServiceAddress,
    node: NodeAddress = DEFAULT_NODE,
    as_json: AsDocument = False,
    tls: Tls = False,
    tls_ca: TlsCa = None,
    tls_certificate: TlsCertificate = None,
) -> None:
    """Show what a service can: its methods as they are declared, and its errors."""
    found = _discovered(node, tls_of(tls_ca, tls_certificate, wanted=tls), "describe", address=address)
    if as_json:
        print_json(found)
        return
    sys.stdout.write(f"{printable(found['name'])} at {printable(found['address'])}\n")
    _print_text(found["documentation"])
    for method in found["methods"]:
        sys.stdout.write(f"\n{printable(method['signature'])}\n")
        _print_text(method["documentation"])
    for error in found["errors"]:
        sys.stdout.write(f"\nerror {error['code']}: {printable(error['name'])}\n")
        _print_text(error["documentation"])


def stats(
    address: Annotated[str | None, typer.Argument(metavar="[ADDRESS]", show_default=False)] = None,
    node: NodeAddress = DEFAULT_NODE,
    as_json: AsJson = False,
    tls: Tls = False,
    tls_ca: TlsCa = None,
    tls_certificate: TlsCertificate = None,
) -> None:
    """Show how often each method was called, with what success and in what time."""
    found = _discovered(node, tls_of(tls_ca, tls_certificate, wanted=tls), "statistics", address=address)
    # The statistics of an unknown address are empty, not an error.
    if address is not None and not found:
        raise UsageError(f"No service is bound at {address}; `hutong rpc list` shows those that are.", ExitCode.NOINPUT)
    rows = [
        {"address": one["address"], "method": method["name"], **{name: method[name] for name in _FIGURES}}
        for one in found
        for method in one["methods"]
    ]
    print_rows(rows, ("address", "method", *_FIGURES), as_json=as_json)


_FIGURES: Final = (
    "requests_total",
    "errors_total",
    "in_flight",
    "processing_ms_average",
    "processing_ms_max",
    "last_error",
)


def call(
    method: Annotated[str, typer.Argument(metavar="ADDRESS.METHOD", show_default=False)],
    arguments: Annotated[
        str, typer.Argument(metavar="[JSON]", help="Arguments by name; - reads standard input.", show_default=False)
    ] = "{}",
    headers: Headers = None,
    timeout_ms: TimeoutMs = 30_000,
    node: NodeAddress = DEFAULT_NODE,
    tls: Tls = False,
    tls_ca: TlsCa = None,
    tls_certificate: TlsCertificate = None,
) -> None:
    """Call a method and print its result as JSON; of a stream, each item on a line."""
    address, dot, action = method.rpartition(".")
    # The last dot divides: addresses have dots themselves.
    if not (address and dot and action):
        raise UsageError(f"{method!r} names no method; write ADDRESS.METHOD, as in shop.orders.place.")
    given = _arguments(arguments)
    sent = headers_of(headers)

    async def carry_out(client: Any) -> None:
        from hutong.rpc.call import PROXY_ADDRESS, STREAM_ADDRESS
        from hutong.rpc.calling.proxy import ended
        from hutong.rpc.calling.transport import CallSite, OutgoingCall
        from hutong.rpc.errors import error_of

        site = CallSite(address, action, None, tuple(sent.items()))
        outcome = await ended(client.transport, OutgoingCall(site, given), timeout_ms)
        # The call did not reach a service, or its connection ended.
        if isinstance(outcome, BaseException):
            raise outcome
        if outcome.failure is not None:
            raise error_of(outcome.failure, {})
        headers_back = dict(outcome.headers)
        # A stream stays at the node; its items are asked for at an address of its own.
        if STREAM_ADDRESS in headers_back:
            await _print_stream(client, headers_back[STREAM_ADDRESS], timeout_ms)
            return
        # A service as a result lives as long as the connection, which ends with this command.
        if PROXY_ADDRESS in headers_back:
            remark("the result is another service, which ends with this connection")
        _print_value(outcome.value)

    _asked(node, tls_of(tls_ca, tls_certificate, wanted=tls), carry_out, of=method)


async def _print_stream(client: Any, address: str, timeout_ms: int) -> None:
    question = {"max": STREAM_BATCH, "wait_ms": max(1, timeout_ms // 2)}
    while True:
        batch = await client.call(address, "next", question, timeout=timeout_ms / 1_000)
        for item in batch["items"]:
            _print_value(item)
        sys.stdout.flush()
        # An empty batch alone is no end: the stream may be waiting.
        if batch["done"]:
            return


def _discovered(node: str, tls: Any, action: str, **arguments: object) -> Any:
    """Ask the node's own service for services."""
    return _asked(node, tls, lambda client: client.call(DISCOVERY, action, arguments))


def _asked(node: str, tls: Any, ask: Callable[[Any], Awaitable[A]], of: str = "") -> A:
    """Connect to the node and return the result of `ask`. Raises UsageError for every failure."""
    from hutong.rpc.errors import CallFailed, DispatchFailed, NoService

    async def run() -> A:
        from hutong.rpc.remote.client import connect

        async with connect(node, tls=tls) as client:
            try:
                return await ask(client)
            except (DispatchFailed, NoService) as error:
                near = await _nearest(client, of, error)
                raise (_sentence(error, node, of, near) if near else error) from None

    try:
        return asyncio.run(run())
    except CallFailed as error:
        raise _sentence(error, node, of) from None
    except LimitExceeded as error:
        raise UsageError(f"The call is too large: {error}.", ExitCode.DATAERR) from None


async def _nearest(client: Any, of: str, error: Any) -> str:
    """`; did you mean ...?` for a call of what the node does not have; nothing where it is no misspelt name."""
    from hutong.rpc.errors import CallFailed

    address, _, action = of.rpartition(".")
    try:
        services = {one["address"]: one["actions"] for one in await client.call(DISCOVERY, "services", {})}
    except CallFailed:  # a node may keep its services to itself
        return ""
    if address not in services:
        near = did_you_mean(address, services)
        return near.replace("?", f".{action}?") if near and action else near
    return "" if action in services[address] else did_you_mean(action, services[address])


def _sentence(error: Any, node: str, of: str, near: str = "") -> UsageError:
    """The failure as a sentence; `near` is its end where the name was misspelt."""
    from hutong.rpc import errors

    reason = str(error).rstrip(".")
    what = f"The call of {of}" if of else f"The question to {node}"
    match error:
        case errors.NotConnected():
            return UsageError(
                f"No node answers calls at {node} ({reason}); is `hutong rpc serve MODULE:FUNCTION --listen {node}` "
                "running?",
                ExitCode.UNAVAILABLE,
            )
        case errors.NoService():
            return UsageError(
                f"{what} found no service: {reason}{near or ';'} `hutong rpc list` shows those there are.",
                ExitCode.NOINPUT,
            )
        case errors.NotAuthenticated() | errors.NotAuthorized():
            return UsageError(f"{what} is not permitted ({error.code}): {reason}.", ExitCode.NOPERM)
        case errors.DispatchFailed():
            end = near or f"; `hutong rpc describe {of.rpartition('.')[0]}` shows the methods."
            return UsageError(f"{what} was not understood: {reason}{end if of else '.'}", ExitCode.DATAERR)
        case errors.ServiceError() if error.code == NO_SUCH_SERVICE and not of:
            return UsageError(
                f"{reason[:1].upper()}{reason[1:]}; `hutong rpc list` shows those that are.", ExitCode.NOINPUT
            )
        case errors.ServiceError():
            return UsageError(f"{what} failed with code {error.code}: {reason}.", ExitCode.PROTOCOL)
        case errors.CallTimeout() | errors.ConnectionLost() | errors.Overloaded():
            return UsageError(f"{what} was not answered ({type(error).__name__}): {reason}.", ExitCode.TEMPFAIL)
    return UsageError(f"{what} failed ({type(error).__name__}): {reason}.", ExitCode.PROTOCOL)


def _arguments(text: str) -> dict[str, Any]:
    if text == "-":
        text = sys.stdin.read()
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"The arguments are no JSON: {error}.", ExitCode.DATAERR) from None
    if not isinstance(given, dict):
        raise UsageError('Arguments are an object, by the names of the parameters: {"item": "nut"}.', ExitCode.DATAERR)
    return given


def _print_value(value: Any) -> None:
    """Bytes as base64 and times as ISO 8601, as in all JSON of services."""
    import msgspec

    print_json(msgspec.to_builtins(value, str_keys=True))


def _print_text(text: str) -> None:
    for line in text.splitlines():
        sys.stdout.write(f"  {printable(line)}\n" if line.strip() else "\n")
