"""Vert.x's JavaScript clients on the SockJS bridge, by each of their transports, in Node.js and in a browser."""

import functools
import http.server
import json
import os
import pathlib
import subprocess
import threading
from collections.abc import Iterator
from typing import Any, Final

import pytest
from tests.support.npm import chromium, node_modules
from tests.support.sockjs import SockJSBus

from hutong.bus import Message
from hutong.bus.bridge.permissions import Permissions, Permit
from hutong.bus.sockjs.handler import Site
from hutong.bus.sockjs.limits import SockJSLimits

HERE: Final = pathlib.Path(__file__).parent
PACKAGES: Final = (
    "vertx3-eventbus-client@3.9.4",
    "sockjs-client@1.6.1",
    "@vertx/eventbus-bridge-client.js@1.0.0",
    "playwright-core@1.61.0",
)
DEADLINE_S: Final = 60.0
PERMISSIONS: Final = Permissions(
    [Permit(regex="echo|headers|fail|nobody|news|ask-back")], [Permit("news"), Permit(regex=r"client\..*")]
)
PAGE: Final = """<!doctype html><meta charset="utf-8"><title>scenario</title>
<script src="/node_modules/sockjs-client/dist/sockjs.min.js"></script>
<script src="/node_modules/vertx3-eventbus-client/vertx-eventbus.js"></script>
<script src="/scenario.js"></script>"""


class Server(SockJSBus):
    """The bridge, with the consumers that the scenario talks to."""

    def __init__(self, site: Site, port: int = 0) -> None:
        super().__init__(site=site, permissions=PERMISSIONS, port=port, limits=SockJSLimits(disconnect_ms=1_000))
        self.bus.consumer("headers", lambda message: message.reply(dict(message.headers.items())))
        self.bus.consumer("ask-back", self._ask_back)
        self.bus.consumer("secret", lambda message: message.reply("told"))

    async def _ask_back(self, message: Message) -> None:
        answer = await self.bus.request(message.body, "who?")
        message.reply(answer.body)


class Pages(http.server.SimpleHTTPRequestHandler):
    """The page, the scenario and the clients' scripts, from another origin than the bridge's."""

    def do_GET(self) -> None:
        if self.path == "/":
            self._give(PAGE.encode(), "text/html")
        elif self.path == "/scenario.js":
            self._give((HERE / "sockjs_scenario.js").read_bytes(), "text/javascript")
        else:
            super().do_GET()

    def log_message(self, format: str, *args: Any) -> None:
        """Quietly."""

    def _give(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def modules() -> pathlib.Path:
    return node_modules("sockjs-1", *PACKAGES)


@pytest.fixture(scope="module")
def page(modules: pathlib.Path) -> Iterator[str]:
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Pages, directory=str(modules.parent))
    ) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def run(modules: pathlib.Path, site: Site, script: str, *words: str, transport: str) -> dict[str, Any]:
    """The scenario's result; the server is restarted on its port when the client asks for that."""
    server = Server(site)
    url = f"http://127.0.0.1:{server.port}/eventbus"
    command = ["node", str(HERE / script), *words, url, transport]
    environment = {**os.environ, "NODE_PATH": str(modules)}
    lines: list[str] = []
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        watch = threading.Timer(DEADLINE_S, process.kill)
        watch.start()
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            for line in process.stdout:
                lines.append(line)
                if line.strip() == "restart":
                    port = server.port
                    server.close()
                    server = Server(site, port)
            assert process.wait() == 0, (lines, process.stderr.read())
        finally:
            watch.cancel()
            process.kill()
            server.must_be_empty()
            server.close()
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def must_have_seen_all(result: dict[str, Any], transport: str) -> None:
    assert result["transport"] == transport
    assert result["echo"] == {"text": "ü \u2028 \U0001f600", "list": [1, 2.5, None, True]}
    assert result["headers"] == {"a": "1"}
    assert result["failure"] == {"failureCode": 7, "failureType": "RECIPIENT_FAILURE", "message": "no"}
    assert (result["nobody"]["failureCode"], result["nobody"]["failureType"]) == (-1, "NO_HANDLERS")
    assert result["denied"]["message"] == "access_denied"
    assert result["error"] == "access_denied"
    assert result["asked"] == "browser"
    assert result["isInOrder"] is True
    assert result["large"] == 200_000
    assert result["afterRestart"] == "again"


@pytest.mark.parametrize("client", ["vertx3-eventbus-client", "@vertx/eventbus-bridge-client.js"])
@pytest.mark.parametrize("transport", ["websocket", "xhr-streaming", "eventsource", "xhr-polling"])
def test_clients_in_node(modules: pathlib.Path, client: str, transport: str) -> None:
    must_have_seen_all(run(modules, Site(origins=("*",)), "sockjs_node.js", client, transport=transport), transport)


@pytest.mark.parametrize(
    "transport",
    [
        "websocket",
        "xhr-streaming",
        "eventsource",
        "iframe-eventsource",
        "iframe-htmlfile",
        "xhr-polling",
        "iframe-xhr-polling",
        "jsonp-polling",
    ],
)
def test_a_browser(modules: pathlib.Path, page: str, transport: str) -> None:
    site = Site(origins=(page,), client_url=f"{page}/node_modules/sockjs-client/dist/sockjs.min.js")
    result = run(modules, site, "sockjs_browser.js", chromium(), page, transport=transport)
    must_have_seen_all(result, transport)
    assert result["told"] == []
