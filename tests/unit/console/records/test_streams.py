"""Search and live tail as the browser has them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import pytest
from tests.support.waiting import until
from tests.unit.console.records.produced import produce
from tests.unit.console.scene import ConsoleClient

from hutong.rest.limits import READERS_MAX
from hutong.testing import EmbeddedNode


def found(client: ConsoleClient, query: str) -> tuple[list[str], dict[str, Any]]:
    """The values that a search finds, and its end."""
    values: list[str] = []
    for name, data in client.stream(f"/api/topics/orders/messages/search?{query}"):
        if name == "matches":
            values += [each["value"]["text"].replace("\n", "").replace(" ", "") for each in data["records"]]
        elif name in ("ended", "failed"):
            return values, data
    raise AssertionError("the search has no end")


@pytest.fixture
def orders(node: EmbeddedNode) -> None:
    if "orders" in node.topics():
        return
    node.create_topic("orders", partitions=2)
    records = [(number % 2, f'{{"n":{number}}}', 1_000 + number) for number in range(1_000)]
    produce(node, "orders", records, key=b"k", headers=[("kind", b"order")])


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("q=999", ['{"n":999}']),
        ("q=99&order=oldest&offset_end=60", ['{"n":99}']),
        (f"path={quote('$.n > 997')}", ['{"n":999}', '{"n":998}']),
        (f"path={quote('$.n >= 3')}%0A{quote('$.n < 5')}&order=oldest", ['{"n":3}', '{"n":4}']),
        (f"q={quote('^.{5}7[57].$')}&regex=true&in=value&partitions=1&order=oldest", ['{"n":75}', '{"n":77}']),
        ("q=order&in=headers&time_begin_ms=1998", ['{"n":999}', '{"n":998}']),
        ("q=K&in=key&case=true", []),
        ("time_begin_ms=1100&time_end_ms=1102", ['{"n":101}', '{"n":100}']),
        ("partitions=0&offset_begin=499", ['{"n":998}']),
    ],
)
def test_a_search_finds_what_is_there(client: ConsoleClient, query: str, values: list[str]) -> None:
    result, end = found(client, query)
    # From the oldest on, matches come as they are found: each partition in its order.
    assert (sorted(result) if "oldest" in query else result) == values
    assert (end["ended"], end["matches"]) == ("all", len(values))
    assert end["offsets_passed"] == end["offsets_total"]


@pytest.mark.usefixtures("orders")
def test_a_search_ends_with_as_many_matches_as_can_be_shown(client: ConsoleClient) -> None:
    result, end = found(client, "q=n")
    assert (len(result), end["ended"]) == (200, "matches")
    assert result[0] == '{"n":999}'


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("query", "status"),
    [("path=n", 400), ("q=(&regex=true", 400), ("in=there", 400), ("order=random", 400), ("partitions=9", 404)],
)
def test_a_search_that_is_wrong_is_refused(client: ConsoleClient, query: str, status: int) -> None:
    answer = client.ask("GET", f"/api/topics/orders/messages/search?{query}")
    assert (answer.status, bool(answer.value["error"]["message"])) == (status, True)
    if status == 400:
        assert client.ask("GET", f"/api/topics/orders/messages/search?{query}&check=true").status == 400


@pytest.mark.usefixtures("orders")
def test_a_search_that_is_right_can_be_checked_without_a_stream(client: ConsoleClient) -> None:
    assert client.value("GET", "/api/topics/orders/messages/search?q=x&check=true") == {}


@pytest.mark.usefixtures("orders")
def test_searches_that_are_cancelled_leave_no_consumer(client: ConsoleClient) -> None:
    for _ in range(READERS_MAX + 5):
        events = client.stream("/api/topics/orders/messages/search?q=nothing")
        until(lambda events=events: next(events, None) is not None, what="a place for a consumer")  # type: ignore[misc]
        events.close()


@contextmanager
def producing(node: EmbeddedNode, topic: str) -> Iterator[None]:
    """Records come until the block ends."""
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            produce(node, topic, [(0, "x" * 100, 1_000)] * 500)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_a_tail_shows_a_sample_and_counts_all(node: EmbeddedNode, client: ConsoleClient) -> None:
    node.create_topic("fast", partitions=1)
    tail = client.stream("/api/topics/fast/messages/tail")
    shown, figures = 0, {"seen": 0, "shown": 0}
    with producing(node, "fast"):
        for name, data in tail:
            assert name == "records"
            assert len(data["records"]) <= 50
            shown += len(data["records"])
            figures = data["figures"]
            if figures["seen"] > 5_000 and shown > 50:
                break
    tail.close()
    assert figures["shown"] == shown
    assert figures["seen"] > shown


def test_a_tail_of_a_quiet_topic_shows_every_record(node: EmbeddedNode, client: ConsoleClient) -> None:
    node.create_topic("quiet", partitions=2)
    answer = client.stream("/api/topics/quiet/messages/tail")
    told: list[str] = []

    def read() -> None:
        for _, data in answer:
            told.extend(each["value"]["text"] for each in data["records"])
            if "last" in told:
                return

    reading = threading.Thread(target=read)
    reading.start()

    # It has begun once one of the records that are sent all the time has come.
    def has_begun() -> bool:
        produce(node, "quiet", [(0, "first", 1_000)])
        return "first" in told

    # Slowly: of more than 50 records a second a tail shows the newest alone.
    until(has_begun, what="the tail", between_s=0.1)
    told.clear()
    produce(node, "quiet", [(1, f"v{number}", 2_000 + number) for number in range(5)])
    produce(node, "quiet", [(1, "last", 3_000)])
    reading.join()
    assert [each for each in told if each != "first"].count("last") == 1
    assert {f"v{number}" for number in range(5)} <= set(told)


def test_a_tail_of_nothing_is_refused(client: ConsoleClient) -> None:
    assert client.ask("GET", "/api/topics/missing/messages/tail").status == 404


def test_a_tail_of_a_topic_that_is_deleted_says_so_and_ends(node: EmbeddedNode, client: ConsoleClient) -> None:
    node.create_topic("gone", partitions=1)
    tail = client.stream("/api/topics/gone/messages/tail")
    deleting = threading.Thread(target=lambda: client.value("DELETE", "/api/topics/gone"))
    deleting.start()
    assert [name for name, _ in tail][-1] == "failed"
    deleting.join()
