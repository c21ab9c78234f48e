"""A node's own pages: made in steps, for those with the credentials; and health for everybody."""

import asyncio
from collections.abc import Callable, Iterator

import pytest
from tests.support.web_client import WebClient, request

from hutong.foundation.errors import UsageError
from hutong.server.configuration.sections.network import MetricsSettings
from hutong.server.monitoring.health import Health
from hutong.server.monitoring.pages import LIMITS, admission_of, routes
from hutong.server.monitoring.slices import SlicedPage


def visit(settings: MetricsSettings | None = None, steps: Callable[[], Iterator[bytes]] | None = None) -> WebClient:
    loop = asyncio.get_running_loop()
    page = SlicedPage(steps or (lambda: iter([b"one ", b"two"])), "text/x", loop.call_soon)
    return WebClient(routes({"": page}, Health({}), loop), admission_of(settings or MetricsSettings()), LIMITS)


async def test_a_page_that_takes_several_turns_is_answered_before_what_follows_it() -> None:
    client = visit()
    await client.send(request("GET", "/metrics") + request("GET", "/healthz") + request("HEAD", "/metrics"))
    assert client.statuses == [200, 200, 200]
    assert client.answers.count(b"one two") == 1
    assert client.answers.index(b"one two") < client.answers.index(b"ok\n")


async def test_a_node_that_is_not_serving_is_not_ready() -> None:
    client = visit()
    await client.send(request("GET", "/readyz"))
    assert client.statuses == [503]
    assert client.body == b"the node is not accepting clients\n"


async def test_a_page_that_could_not_be_made_is_an_answer() -> None:
    def steps() -> Iterator[bytes]:
        raise ValueError("our fault")
        yield b""

    heard: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: heard.append(context["exception"]))
    client = visit(steps=steps)
    await client.send(request("GET", "/metrics"))
    assert (client.statuses, len(heard)) == ([500], 1)


async def test_a_page_of_metrics_is_for_who_has_the_password_and_health_for_everybody() -> None:
    settings = MetricsSettings(user="ann", password="secret")
    for target, field, status in (
        ("/metrics", "X: y", 401),
        ("/metrics", "Authorization: Basic YW5uOnNlY3JldA==", 200),
        ("/healthz", "X: y", 200),
        ("/nowhere", "X: y", 401),
    ):
        client = visit(settings)
        await client.send(request("GET", target, b"", "", field))
        assert client.statuses == [status]


@pytest.mark.parametrize("user", ["", "a:b"])
def test_a_user_that_basic_cannot_say_is_refused(user: str) -> None:
    with pytest.raises(UsageError, match=r"metrics\.user"):
        admission_of(MetricsSettings(user=user, password="secret"))


def test_who_asks_while_a_page_is_made_gets_that_one() -> None:
    soon: list[Callable[[], None]] = []
    made: list[int] = []
    got: list[list[bytes] | None] = []

    def steps() -> Iterator[bytes]:
        made.append(1)
        yield b"a"
        yield b"b"

    page = SlicedPage(steps, "text/x", soon.append)
    page.ask(got.append)
    soon.pop(0)()
    page.ask(got.append)
    while soon:
        soon.pop(0)()
    assert (got, made) == ([[b"a", b"b"], [b"a", b"b"]], [1])
    page.ask(got.append)
    while soon:
        soon.pop(0)()
    assert (len(got), len(made)) == (3, 2)


def test_a_page_that_cannot_be_made_is_tried_anew_for_the_next() -> None:
    soon: list[Callable[[], None]] = []
    got: list[list[bytes] | None] = []
    faults = [True]

    def steps() -> Iterator[bytes]:
        if faults:
            faults.clear()
            raise ValueError("our fault")
        yield b"a"

    page = SlicedPage(steps, "text/x", soon.append)
    page.ask(got.append)
    with pytest.raises(ValueError, match="our fault"):
        soon.pop(0)()
    page.ask(got.append)
    while soon:
        soon.pop(0)()
    assert got == [None, [b"a"]]
