"""Messages in a browser: read, searched, followed, produced and sent again; by keyboard and mouse; hostile content."""

import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from bench.processes import ReadyProcess
from bench.raw_client import create_topic
from playwright.sync_api import Locator, Page, expect
from tests.compat.console.checks import sideways_px, violations
from tests.compat.console.conftest import OpenPage
from tests.compat.console.outside import console
from tests.support.confluent import producer, send

from hutong.testing import EmbeddedNode

pytestmark = pytest.mark.compat
HOSTILE = [
    b"<script>alert(1)</script><img src=x onerror=alert(1)>",
    b"\x00\x1b[31mred\x1b[0m \xe2\x80\xaeevil, and some more text that follows",
    b'{"__proto__":{"x":1},"a":"</td><script>alert(1)</script>"}',
    msgspec.msgpack.encode({"<b>": b"\xff", "deep": [[[[1]]]]}),
    b"\xff\xfe\xfd" * 50,
    b"mostly text, then \xff\xc3 and more of it",
    b"x" * 999_000,
    b"[" * 100_000,
    b"",
]


def topic(node: EmbeddedNode, name: str, values: list[bytes], **settings: Any) -> str:
    """A topic of one partition with these values."""
    node.create_topic(name, partitions=1)
    send(producer(node.bootstrap), name, values, **settings)
    return f"/topics/{name}/messages"


def rows(page: Page) -> Locator:
    return page.locator("tr.message")


@pytest.fixture(scope="module")
def numbers(node: EmbeddedNode) -> str:
    return topic(
        node, "numbers", [b'{"n": %d, "even": %s}' % (each, (b"true", b"false")[each % 2]) for each in range(130)]
    )


def test_the_newest_are_there_at_once_and_older_ones_by_a_key(open_page: OpenPage, numbers: str) -> None:
    page = open_page(numbers)
    expect(rows(page)).to_have_count(50)
    expect(rows(page).first).to_contain_text('"n": 129')
    page.keyboard.press("]")
    expect(rows(page).first).to_contain_text('"n": 79')
    page.keyboard.press("]")
    expect(rows(page)).to_have_count(30)
    expect(page.get_by_role("button", name="Older")).to_be_disabled()
    page.keyboard.press("[")
    expect(rows(page).last).to_contain_text('"n": 30')


def test_a_place_is_chosen_and_stays_in_the_address(open_page: OpenPage, numbers: str) -> None:
    page = open_page(numbers)
    page.get_by_label("From").select_option("offset")
    page.get_by_label("Offset", exact=True).fill("127")
    page.get_by_role("button", name="Show").click()
    expect(rows(page)).to_have_count(3)
    page.reload()
    expect(rows(page)).to_have_count(3)
    page.get_by_label("Offset", exact=True).fill("many")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("alert")).to_have_text("Give an offset: a number from 0.")
    page.get_by_label("From").select_option("time")
    page.get_by_role("textbox", name="Time").fill("2001-02-03T04:05:06")
    page.get_by_role("button", name="Show").click()
    expect(rows(page).last).to_contain_text('"n": 0,')


def test_a_record_opens_by_keyboard_and_has_an_address(open_page: OpenPage, numbers: str) -> None:
    page = open_page(numbers)
    toggle = page.get_by_role("button", name="Open record 129 of partition 0")
    toggle.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    opened = page.locator(".message-open")
    expect(opened.get_by_role("region", name="Value")).to_have_text('{\n  "n": 128,\n  "even": true\n}')
    opened.get_by_label("Form of the value").select_option("hex")
    expect(opened.get_by_role("region", name="Value")).to_contain_text("00000000  7b 22 6e 22")
    page.keyboard.press("Tab")
    page.get_by_role("link", name="128", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Record 128 of partition 0")
    expect(page.get_by_role("region", name="Value")).to_contain_text('"n": 128')
    assert violations(page) == []


CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture(scope="module")
def packed(node: EmbeddedNode) -> str:
    """A record of each codec, in a batch of its own."""
    path = topic(node, "packed", [])
    for codec in CODECS:
        send(producer(node.bootstrap, compression_type=codec), "packed", [b'{"codec": "%s"} ' % codec.encode() * 20])
    return path


def test_the_compression_of_batches_is_shown(open_page: OpenPage, packed: str) -> None:
    page = open_page(packed)
    expect(page.get_by_role("columnheader", name="Compression")).to_be_visible()
    expect(rows(page).locator("td:nth-child(4)")).to_have_text(CODECS[::-1])
    page.get_by_role("button", name="Open record 1 of partition 0").click()
    opened = page.locator(".message-open")
    expect(opened).to_contain_text(re.compile(r"Compression\s*gzip"))
    expect(opened).to_contain_text(re.compile(r"Batch\s*\d+ B for this record alone"))
    assert violations(page) == []
    page.get_by_role("link", name="4", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Record 4 of partition 0")
    expect(page.locator(".record")).to_contain_text(re.compile(r"Compression\s*zstd"))
    page.goto(page.url.split("/topics/")[0] + "/topics/users/messages")
    expect(page.get_by_text("5 records of about 5, not compressed")).to_be_visible()
    expect(page.get_by_role("columnheader", name="Compression")).to_have_count(0)


def test_outside_of_a_node_the_compression_is_said_to_be_unknown(
    open_page: OpenPage, packed: str, node: EmbeddedNode, tmp_path: Path
) -> None:
    with console(node.bootstrap, tmp_path) as url:
        page = open_page(packed, url=url)
        expect(rows(page)).to_have_count(5)
        expect(page.get_by_text("The compression of these records is not shown. Kafka's client")).to_be_visible()
        expect(page.get_by_role("columnheader", name="Compression")).to_have_count(0)
        page.get_by_role("link", name="4", exact=True).click()
        expect(page.locator(".record")).to_contain_text("not known. Kafka's client library unpacks batches")
        assert violations(page) == []


def test_a_search_by_keyboard_shows_matches_and_progress(open_page: OpenPage, numbers: str) -> None:
    page = open_page(numbers)
    page.keyboard.press("/")
    page.keyboard.type("true")
    page.get_by_label("JSON path").fill("$.n >= 120")
    page.keyboard.press("Enter")
    status = page.locator(".live-bar [role=status]")
    expect(status).to_have_text("5 matches in 130 records, 100 % of 130. Everything was looked at.")
    expect(rows(page)).to_have_count(5)
    expect(rows(page).first).to_contain_text('"n": 128')
    assert violations(page) == []
    page.get_by_label("JSON path").fill("n = 3")
    page.keyboard.press("Enter")
    expect(page.get_by_text("a path begins with $")).to_be_visible()


def test_a_search_is_cancelled(open_page: OpenPage, node: EmbeddedNode) -> None:
    page = open_page(topic(node, "haystack", [b"x" * 100] * 100_000))
    page.keyboard.press("/")
    page.keyboard.type("needle")
    page.keyboard.press("Enter")
    expect(page.locator(".live-bar [role=status]")).to_contain_text("0 matches in")
    page.get_by_role("button", name="Cancel search").click()
    expect(page.locator(".live-bar [role=status]")).to_contain_text("Cancelled.")


@contextmanager
def producing(bootstrap: str, name: str) -> Iterator[None]:
    """About ten thousand records a second come until the block ends."""
    ended = threading.Event()

    def work() -> None:
        source = producer(bootstrap)
        while not ended.wait(0.1):
            send(source, name, [b"x" * 100] * 1_000)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


SAMPLED = re.compile(r"Shown: [\d,]+ of [\d,]{4,} records/s")


def test_a_fast_topic_is_followed_by_samples_with_bounded_rows(open_page: OpenPage, node: EmbeddedNode) -> None:
    page = open_page(topic(node, "fast", []))
    with producing(node.bootstrap, "fast"):
        page.keyboard.press("l")
        status = page.locator(".live-bar [role=status]")
        expect(status).to_contain_text(SAMPLED)
        page.keyboard.press("p")
        expect(status).to_contain_text("Paused")
        before = rows(page).count()
        expect(status).to_contain_text(re.compile(r"Paused: \d{2,} wait"))
        assert rows(page).count() == before
        page.get_by_role("button", name="Go on").click()
        expect(status).to_contain_text(SAMPLED)
        assert before < rows(page).count() <= 500
    page.keyboard.press("l")
    expect(page.get_by_role("button", name="Follow live")).to_be_visible()


@pytest.mark.thorough
def test_a_minute_at_ten_thousand_a_second_takes_no_more_memory_of_tab_and_node(
    open_page: OpenPage, tmp_path: Path
) -> None:
    words = ["serve", "--data-dir", str(tmp_path / "data"), "--kafka", "127.0.0.1:0", "--console", "127.0.0.1:0"]
    process = ReadyProcess([sys.executable, "-m", "hutong", *words], log_path=str(tmp_path / "log"))
    with process.start():
        bootstrap, memory = process.fields["kafka"], psutil.Process(int(process.fields["pid"])).memory_info
        create_topic(bootstrap, "minute", records=0)
        page = open_page("/topics/minute/messages", url=f"http://{process.fields['console']}")

        def heap_mb() -> float:
            page.context.new_cdp_session(page).send("HeapProfiler.collectGarbage")
            return float(page.evaluate("performance.memory.usedJSHeapSize")) / 1e6

        with producing(bootstrap, "minute"):
            page.keyboard.press("l")
            expect(rows(page)).to_have_count(500, timeout=60_000)
            page.wait_for_timeout(10_000)  # buffers of node and client library have their size then
            heap_began, node_began, until = heap_mb(), memory().rss / 1e6, time.monotonic() + 60
            while time.monotonic() < until:
                page.wait_for_timeout(1_000)
                assert rows(page).count() <= 500
            assert heap_mb() < heap_began + 10
            assert memory().rss / 1e6 < node_began + 20


def test_records_are_produced_by_keyboard(open_page: OpenPage, node: EmbeddedNode) -> None:
    page = open_page(topic(node, "typed", []))
    expect(page.get_by_text("This topic has no records yet.")).to_be_visible()
    page.keyboard.press("n")
    page.keyboard.press("Tab")
    page.keyboard.type("the-key")
    page.get_by_label("Value", exact=False).first.focus()
    page.get_by_role("dialog").locator("textarea[name=value]").focus()
    page.keyboard.type('{"typed": true}')
    page.get_by_role("dialog").locator("textarea[name=headers]").focus()
    page.keyboard.type("kind: test")
    assert violations(page) == []
    page.get_by_role("dialog").get_by_role("button", name="Produce").press("Enter")
    expect(rows(page)).to_have_count(1)
    expect(rows(page).first).to_contain_text("the-key")
    expect(page.get_by_text("Produced: offset 0 of partition 0 in typed.")).to_be_visible()


def test_what_is_wrong_in_a_record_is_said_in_the_dialog(open_page: OpenPage, node: EmbeddedNode) -> None:
    page = open_page(topic(node, "wrong", []))
    page.keyboard.press("n")
    dialog = page.get_by_role("dialog")
    dialog.locator("textarea[name=value]").fill("{")
    dialog.get_by_label("The value is typed as").select_option("json")
    dialog.get_by_role("button", name="Produce").click()
    expect(dialog.get_by_role("alert")).to_contain_text("The value is no JSON")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_records_are_sent_again_as_they_are_and_edited_by_mouse(open_page: OpenPage, node: EmbeddedNode) -> None:
    page = open_page(topic(node, "again", [b"\xff\x00\r\n", "é\n2".encode()], headers=[("h", b"\xfe"), ("t", b"x")]))
    page.get_by_role("button", name="Open record 0 of partition 0").click()
    page.get_by_role("button", name="Send again").click()
    page.get_by_role("dialog").get_by_role("button", name="Send again").click()
    expect(page.get_by_text("Sent: offset 2 of partition 0 in again.")).to_be_visible()
    page.goto(page.url.partition("/topics")[0] + "/topics/again/messages/0/1")
    page.get_by_role("button", name="Edit and send").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("textarea[name=headers]")).to_have_value("h:: /g==\nt: x")
    expect(dialog.locator("textarea[name=value]")).to_have_value("é\n2")
    dialog.locator("textarea[name=value]").fill("edited")
    dialog.get_by_role("button", name="Produce").click()
    expect(page.get_by_text("Produced: offset 3 of partition 0 in again.")).to_be_visible()


def test_a_range_is_copied_after_a_preview(open_page: OpenPage, node: EmbeddedNode, numbers: str) -> None:
    node.create_topic("copies", partitions=1)
    page = open_page(numbers)
    expect(rows(page)).to_have_count(50)
    page.get_by_role("button", name="Copy records").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("To the topic").fill("copies")
    dialog.get_by_label("From offset").fill("120")
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog).to_contain_text("Copy up to 10 records")
    expect(dialog).to_contain_text("Partition 0: offsets 120 to 129")
    dialog.get_by_role("button", name="Copy records").click()
    expect(page.get_by_text("10 records copied to copies.")).to_be_visible()


def test_hostile_content_is_only_text(open_page: OpenPage, node: EmbeddedNode) -> None:
    page = open_page(topic(node, "hostile", HOSTILE, key=b"<script>alert(2)</script>", headers=[("<b>", b"<i>\x00")]))
    expect(rows(page)).to_have_count(len(HOSTILE))
    for offset in range(len(HOSTILE)):
        page.get_by_role("button", name=f"Open record {offset} of partition 0").click()
    expect(page.locator(".message-open .record-head").first).to_be_visible()
    expect(page.locator(".message-open .loading")).to_have_count(0)
    assert page.locator(".messages script, .messages img, .messages b, .messages i").count() == 0
    assert sideways_px(page) == 0
    assert violations(page) == []
    page.goto(f"{page.url.partition('/topics')[0]}/topics/hostile/messages/0/1")
    value = page.get_by_role("region", name="Value")
    expect(value).to_have_text("␀␛[31mred␛[0m ⟨U+202E⟩evil, and some more text that follows")
    page.goto(f"{page.url.partition('/topics')[0]}/topics/hostile/messages/0/6")
    expect(value).to_have_text("x" * (64 << 10))
    page.get_by_role("button", name="Show more").click()
    expect(value).to_have_text("x" * 999_000)
    page.goto(f"{page.url.partition('/topics')[0]}/topics/hostile/messages/0/5")
    expect(page.get_by_text("What is not UTF-8 is shown as �: 2 times.")).to_be_visible()
    page.goto(f"{page.url.partition('/topics')[0]}/topics/hostile/messages/0/999")
    expect(page.get_by_role("alert")).to_contain_text("Partition 0 has no record 999")


@pytest.mark.parametrize("width", [320, 3840])
def test_messages_do_not_scroll_sideways(open_page: OpenPage, numbers: str, width: int) -> None:
    page = open_page(numbers, width=width)
    page.get_by_role("button", name="Open record 129 of partition 0").click()
    expect(page.get_by_role("region", name="Value")).to_be_visible()
    assert sideways_px(page) == 0
