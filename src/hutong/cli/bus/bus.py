"""`hutong bus`: talk on an event bus, through the TCP bridge of a running node or as a node of a cluster.

Strategy: a body is JSON where it reads as JSON and text where it does not, so that both `hutong bus send a 5` and
`hutong bus send a hello` do what is meant; `--text` says that it is text in any case. What begins as an object, a list
or a text of JSON and is none is refused: it would arrive as a text, and the mistake be found at the other end.

Knows nothing of frames and clusters: `bridge_client` and `cluster_client` do.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hutong.cli.bus import cluster_client, cluster_looks
from hutong.cli.bus.bridge_client import BridgeRefusal, Frame, TcpBridgeClient, tls_of
from hutong.cli.output import print_json, remark, text_or_base64
from hutong.foundation.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from hutong.bus.clustered import ClusterTls
    from hutong.bus.envelope.message import Message

JSON_BEGINNINGS = ("{", "[", '"')
DEFAULT_BRIDGE = "127.0.0.1:7000"

app = typer.Typer(
    name="bus",
    help="Send, publish, request and listen on a node's event bus (its TCP bridge), or on that of a cluster.",
    no_args_is_help=True,
)

Address = Annotated[str, typer.Argument(metavar="ADDRESS", show_default=False)]
Body = Annotated[
    str | None, typer.Argument(metavar="[BODY]", help="JSON, or any text; - reads standard input.", show_default=False)
]
Bridge = Annotated[
    str, typer.Option("--bridge", "-b", metavar="HOST:PORT", envvar="HUTONG_BRIDGE", help="TCP bridge to connect to.")
]
Headers = Annotated[
    list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="Header of the message; repeatable.")
]
IsText = Annotated[bool, typer.Option("--text", help="The body is text, even where it reads as JSON.")]
Tls = Annotated[bool, typer.Option("--tls", help="Connect with TLS, trusting this machine's authorities.")]
TlsCa = Annotated[
    Path | None, typer.Option("--tls-ca", metavar="FILE", help="Connect with TLS, trusting the authorities in FILE.")
]
TlsCertificate = Annotated[
    Path | None, typer.Option("--tls-certificate", metavar="FILE", help="Certificate and key to show, as PEM.")
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster", metavar="zk://HOST:PORT[,...][/PATH]", help="Join the nodes at this ZooKeeper; no bridge is used."
    ),
]
WholeJson = Annotated[bool, typer.Option("--json", help="Print whole messages as JSON: address, headers, body.")]


def _add_one_way(kind: str, summary: str) -> None:
    """Add a command that gives a message to the bus and awaits no reply."""

    @app.command(kind, help=summary)
    def send_one_way(
        address: Address,
        body: Body = None,
        headers: Headers = None,
        is_text: IsText = False,
        bridge: Bridge = DEFAULT_BRIDGE,
        tls: Tls = False,
        tls_ca: TlsCa = None,
        tls_certificate: TlsCertificate = None,
        cluster: Cluster = None,
    ) -> None:
        given = _body(body, is_text=is_text)
        if cluster is not None:
            between = _cluster_tls(tls, tls_ca, tls_certificate)
            cluster_client.send(cluster, address, given, headers_of(headers), between, is_send=kind == "send")
            return
        with _connected(address, bridge, tls, tls_ca, tls_certificate) as client:
            client.send_frame(kind, address, given, headers_of(headers))


_add_one_way("send", "Give a message to one of those who listen at ADDRESS.")
_add_one_way("publish", "Give a message to all who listen at ADDRESS.")


@app.command()
def request(
    address: Address,
    body: Body = None,
    headers: Headers = None,
    is_text: IsText = False,
    timeout_ms: Annotated[int, typer.Option("--timeout", metavar="MS", min=1, max=3_600_000)] = 30_000,
    as_json: WholeJson = False,
    bridge: Bridge = DEFAULT_BRIDGE,
    tls: Tls = False,
    tls_ca: TlsCa = None,
    tls_certificate: TlsCertificate = None,
    cluster: Cluster = None,
    cluster_listen: Annotated[
        str, typer.Option("--cluster-listen", metavar="HOST:PORT", help="Where the cluster's nodes bring the reply.")
    ] = "127.0.0.1:0",
    allow_plain: Annotated[
        bool, typer.Option("--allow-plain", help="Even where others than this machine can connect without TLS.")
    ] = False,
) -> None:
    """Send a message and print the reply's body."""
    given = _body(body, is_text=is_text)
    if cluster is not None:
        between = _cluster_tls(tls, tls_ca, tls_certificate)
        plain = ("bus",) if allow_plain else ()
        sent = headers_of(headers)
        answer = cluster_client.request(cluster, address, given, sent, timeout_ms, cluster_listen, plain, between)
        _print(_frame_of(answer), as_json=as_json)
        return
    with _connected(address, bridge, tls, tls_ca, tls_certificate) as client:
        reply = client.request(address, given, headers_of(headers), timeout_ms)
    _print(reply, as_json=as_json)


@app.command()
def listen(
    address: Address,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="End after so many messages.")] = None,
    reply: Annotated[
        str | None, typer.Option("--reply", metavar="BODY", help="Answer requests with this: JSON, or any text.")
    ] = None,
    as_json: WholeJson = False,
    bridge: Bridge = DEFAULT_BRIDGE,
    tls: Tls = False,
    tls_ca: TlsCa = None,
    tls_certificate: TlsCertificate = None,
) -> None:
    """Print the body of each message that comes to ADDRESS, one a line, until Ctrl-C."""
    answer = _body(reply, is_text=False)
    with _connected(address, bridge, tls, tls_ca, tls_certificate) as client:
        client.send_frame("register", address, None, {})
        remark(f"listening at {address}")
        for number, message in enumerate(client.messages(), 1):
            _print(message, as_json=as_json)
            if reply is not None and "replyAddress" in message:
                client.reply(message, answer)
            if number == count:
                return


app.command()(cluster_looks.nodes)
app.command()(cluster_looks.addresses)


@contextmanager
def _connected(
    address: str, bridge: str, tls: bool, ca: Path | None, certificate: Path | None
) -> Iterator[TcpBridgeClient]:
    """Connect for a `with` block; a refusal in it becomes the sentence for the user."""
    with TcpBridgeClient(bridge, tls_of(ca, certificate, wanted=tls)) as client:
        try:
            yield client
        except BridgeRefusal as refusal:
            raise client.refused(refusal, address) from None


def _cluster_tls(tls: bool, ca: Path | None, certificate: Path | None) -> "ClusterTls | None":
    """TLS to the nodes of a cluster, None for none. Raises UsageError where a file is missing."""
    if ca is not None and certificate is not None:
        from hutong.bus.clustered import ClusterTls

        return ClusterTls(certificate, ca)
    if tls or ca is not None or certificate is not None:
        raise UsageError(
            "With --cluster, TLS needs both --tls-certificate (with its key) and --tls-ca: nodes show certificates to "
            "each other.",
            ExitCode.USAGE,
        )
    return None


def _frame_of(message: "Message") -> Frame:
    """The message as a bridge would show it."""
    body = text_or_base64(message.body) if isinstance(message.body, bytes) else message.body
    return {"address": message.address, "headers": dict(message.headers.items()), "body": body, "send": True}


def _body(text: str | None, *, is_text: bool) -> Any:
    if text == "-":
        text = sys.stdin.read()
    if text is None or is_text:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if text.lstrip().startswith(JSON_BEGINNINGS):
            raise UsageError(
                f"The body begins as JSON and is none: {error}; mend it, or send it as text with --text.",
                ExitCode.DATAERR,
            ) from None
        return text


def headers_of(assignments: list[str] | None) -> dict[str, str]:
    """Of --header. Raises UsageError."""
    pairs = [assignment.partition("=") for assignment in assignments or ()]
    for name, equals, value in pairs:
        if not name or not equals:
            raise UsageError(f"--header {name}{equals}{value} has no name or no value; write --header NAME=VALUE.")
    return {name: value for name, _, value in pairs}


def _print(message: Frame, *, as_json: bool) -> None:
    """Print and flush, so that a reader of a pipe sees each message as it comes."""
    if as_json:
        print_json({name: message.get(name) for name in ("address", "headers", "body", "send", "replyAddress")})
    else:
        print_json(message.get("body"))
    sys.stdout.flush()
