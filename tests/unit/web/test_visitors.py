"""The right to use the bridge over HTTP: names of the server, origins of pages, frames and foreign scripts."""

from collections.abc import Iterator

import pytest
from tests.support.sockjs import Echo, Http, sockjs_bus, upgrade

from hutong.bus.sockjs.handler import Site
from hutong.bus.sockjs.limits import SockJSLimits
from hutong.server.bus.sockjs_bridge import site_of
from hutong.server.configuration import loader
from hutong.web.visitors import Visitors

BASE = "/eventbus"
LIMITS = SockJSLimits(disconnect_ms=300)
EVIL = "http://evil.example"
APP = "https://app.example"
REBOUND = {"Host": "evil.example:7001", "Origin": "http://evil.example:7001"}
SESSION = f"{BASE}/0/visitor"
DOORS = [
    ("GET", BASE),
    ("GET", f"{BASE}/info"),
    ("OPTIONS", f"{BASE}/info"),
    ("OPTIONS", f"{SESSION}/xhr"),
    ("OPTIONS", f"{SESSION}/xhr_send"),
    ("GET", f"{BASE}/iframe.html"),
    ("GET", f"{BASE}/websocket"),
    ("GET", f"{SESSION}/websocket"),
    ("POST", f"{SESSION}/xhr"),
    ("POST", f"{SESSION}/xhr_streaming"),
    ("POST", f"{SESSION}/xhr_send"),
    ("GET", f"{SESSION}/eventsource"),
    ("GET", f"{SESSION}/htmlfile?c=f"),
    ("GET", f"{SESSION}/jsonp?c=f"),
    ("POST", f"{SESSION}/jsonp_send"),
]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A server with the default site."""
    with sockjs_bus(Echo(), site=Site(), limits=LIMITS) as bus:
        yield bus.port


@pytest.fixture
def http(port: int) -> Iterator[Http]:
    with Http(port) as client:
        yield client


@pytest.mark.parametrize(("method", "path"), DOORS)
def test_a_rebound_name_passes_no_door(http: Http, method: str, path: str) -> None:
    """Its page asks with Host and Origin alike; a GET of its own has no Origin."""
    more = upgrade() if path.endswith("/websocket") else {}
    for asked in (REBOUND, {"Host": "evil.example"}):
        reply = http.ask(method, path, **{**more, **asked})
        assert (reply.status, "sockjs.hosts" in reply.text) == (403, True)
        assert "access-control-allow-origin" not in reply.headers


@pytest.mark.parametrize(("method", "path"), DOORS)
@pytest.mark.parametrize("origin", [EVIL, "null", "https://localhost:1", "http://localhost.evil.example"])
def test_a_strangers_page_passes_no_door(http: Http, method: str, path: str, origin: str) -> None:
    more = upgrade() if path.endswith("/websocket") else {}
    reply = http.ask(method, path, **more, Origin=origin)
    assert (reply.status, "sockjs.origins" in reply.text) == (403, True)
    assert "access-control-allow-origin" not in reply.headers


@pytest.mark.parametrize("host", ["127.0.0.1:7001", "[::1]:7001", "localhost", "LOCALHOST.:80", "bus.localhost:1"])
def test_pages_of_the_server_itself_connect(http: Http, host: str) -> None:
    reply = http.ask("GET", f"{BASE}/info", Host=host, Origin=f"http://{host}")
    assert (reply.status, reply.headers["access-control-allow-origin"]) == (200, f"http://{host}")


def test_a_client_that_is_no_browser_connects(http: Http) -> None:
    reply = http.ask("GET", f"{BASE}/info")
    assert (reply.status, "access-control-allow-origin" in reply.headers) == (200, False)
    assert http.ask("GET", f"{BASE}/websocket", **upgrade()).status == 101


@pytest.mark.parametrize("path", ["jsonp?c=f", "htmlfile?c=f", "eventsource"])
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_scripts_and_frames_of_other_sites_open_no_session(http: Http, path: str, site: str) -> None:
    assert http.ask("GET", f"{SESSION}/{path}", **{"Sec-Fetch-Site": site}).status == 403
    named = {"Sec-Fetch-Site": site, "Referer": f"{EVIL}/page"}
    assert http.ask("GET", f"{SESSION}/{path}", **named).status == 403


def test_only_pages_that_may_connect_may_frame_the_iframe(http: Http) -> None:
    """In a frame of ours a stranger's page would ask as ours."""
    assert http.ask("GET", f"{BASE}/iframe.html").headers["content-security-policy"] == "frame-ancestors 'self'"
    assert Visitors((APP, "null")).frame_ancestors == f"'self' {APP}"
    assert Visitors(("*",)).frame_ancestors is None


def test_an_origin_that_is_listed_connects_by_every_door_and_by_its_own_name() -> None:
    visitors = Visitors((APP,))
    listed = {"host": "app.example", "origin": APP}
    assert visitors.knows_host(listed)
    assert visitors.allows(listed)
    assert dict(visitors.cross_origin(listed))["Access-Control-Allow-Origin"] == APP
    script = {"host": "127.0.0.1", "sec-fetch-site": "cross-site", "referer": f"{APP}/"}
    assert visitors.allows_hidden(script)
    assert not visitors.allows_hidden({**script, "referer": f"{APP}.evil.example/"})


def test_every_page_may_connect_where_that_is_wanted() -> None:
    visitors = Visitors(("*",))
    assert visitors.knows_host({"host": "evil.example"})
    assert visitors.allows({"host": "evil.example", "origin": EVIL})
    assert visitors.allows_hidden({"sec-fetch-site": "cross-site"})


@pytest.mark.parametrize(
    ("host", "is_known"),
    [
        ("bus.example", True),
        ("BUS.example.:7001", True),
        ("bus.example.evil.example", False),
        ("evil.example@bus.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("2130706433", False),
        ("", False),
        ("bus.example:7001:7001", False),
        ("[bus.example]", False),
    ],
)
def test_names_of_the_server(host: str, is_known: bool) -> None:
    assert Visitors(hosts=("Bus.example",)).knows_host({"host": host}) is is_known


@pytest.mark.parametrize(
    ("origin", "host", "is_secure", "is_allowed"),
    [
        ("https://bus.example", "bus.example", True, True),
        ("https://bus.example", "bus.example:443", True, True),
        ("http://bus.example", "bus.example", True, False),
        ("http://bus.example", "bus.example:443", False, False),
        ("https://bus.example", "bus.example", False, True),
        ("https://bus.example:8443", "bus.example", True, False),
        ("https://other.example", "bus.example", True, False),
        ("ftp://bus.example", "bus.example", False, False),
        ("bus.example", "bus.example", False, False),
        ("", "", False, False),
        ("http://", "", False, False),
    ],
)
def test_the_same_origin(origin: str, host: str, is_secure: bool, is_allowed: bool) -> None:
    visitors = Visitors(hosts=("bus.example",), is_secure=is_secure)
    assert visitors.allows({"origin": origin, "host": host}) is is_allowed


def test_the_settings_name_the_server() -> None:
    settings = loader.load(
        environment={},
        flags={
            "sockjs.listen": "bus.local:7001",
            "kafka.advertised": "broker.example:9092",
            "sockjs.hosts": "a.example",
            "sockjs.origins": APP,
        },
    ).settings
    site = site_of(settings)
    assert (site.origins, site.is_secure) == ((APP,), False)
    visitors = Visitors(site.origins, site.hosts)
    for name in ("bus.local", "broker.example", "a.example", "app.example"):
        assert visitors.knows_host({"host": f"{name}:7001"})
    assert not visitors.knows_host({"host": "b.example"})
