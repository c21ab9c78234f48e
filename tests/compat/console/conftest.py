"""A browser for the console's pages, and a node whose console it opens."""

import re
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from tests.support.confluent import producer, send
from tests.support.npm import chromium

from hutong.testing import EmbeddedNode

OpenPage = Callable[..., Page]
WAIT_MS_MAX = 20_000
# The answer of a refusal is a line in the browser's console; tests of refusals want it.
REFUSED = re.compile(r"Failed to load resource: (the server responded with a status of [45]|net::ERR_FAILED)")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for each file: while it is open, a loop of Playwright's runs on this thread, where tests want theirs."""
    expect.set_options(timeout=WAIT_MS_MAX)  # five seconds are few on a busy machine
    with sync_playwright() as playwright:
        # As root Chromium has no sandbox; what it opens is ours.
        opened = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def node() -> Iterator[EmbeddedNode]:
    """With topics `orders.eu` of 6 partitions with 50 records each, `users` of one, and `empty`."""
    with EmbeddedNode(settings={"console.listen": "127.0.0.1:0"}) as started:
        admin = AdminClient({"bootstrap.servers": started.bootstrap})
        topics = [
            NewTopic("orders.eu", 6, 1, config={"retention.ms": "604800000"}),
            NewTopic("users", 1),
            NewTopic("empty", 1),
        ]
        for made in admin.create_topics(topics).values():
            made.result(30)
        source = producer(started.bootstrap)
        for partition in range(6):  # by number: without keys, all records may go to one partition (KIP-480)
            orders = range(partition * 50, partition * 50 + 50)
            send(source, "orders.eu", [b'{"order": %d}' % number for number in orders], partition=partition)
        send(source, "users", [b"\x00\xff<b>"] * 5, key=b"<script>alert(1)</script>")
        yield started


@pytest.fixture
def open_page(browser: Browser, node: EmbeddedNode) -> Iterator[OpenPage]:
    """Opens a path of the console. A fault of a script fails the test."""
    contexts: list[BrowserContext] = []
    faults: list[str] = []

    def open_at(path: str, *, width: int = 1280, theme: str = "light", url: str = "", **routes: str) -> Page:
        """`routes`: bodies of JSON for the API's paths in place of the server's answer, with `_` for each slash."""
        context = browser.new_context(
            viewport={"width": width, "height": 800},
            color_scheme="dark" if theme == "dark" else "light",
            reduced_motion="reduce",
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS_MAX)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("dialog", lambda dialog: faults.append(f"a script ran: {dialog.message}"))
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        for name, body in routes.items():
            pattern = re.compile(rf"/api/{name.replace('_', '/')}(\?|$)")
            page.route(pattern, lambda route, _, body=body: route.fulfill(body=body, content_type="application/json"))
        page.goto((url or node.console_url or "") + path)
        page.wait_for_selector("h1")
        return page

    yield open_at
    for context in contexts:
        context.close()
    assert [fault for fault in faults if not REFUSED.match(fault)] == []
