"""Dead letters in a browser: looked at and sent back, chosen ones and all, by keyboard and mouse; hostile ones, too."""

from collections import Counter
from typing import Any

import pytest
from confluent_kafka import Producer
from playwright.sync_api import expect
from tests.compat.console.checks import sideways_px, violations, wait_until_shown
from tests.compat.console.conftest import OpenPage
from tests.support.confluent import read_partition, values

from hutong.testing import EmbeddedNode

pytestmark = pytest.mark.compat
HOSTILE = [b"<img src=x onerror=alert(1)>", b"\x00\x1b[2J\xff\xfe", "\u202egnp.exe".encode(), b"x" * 900_000, b""]


def fill(node: EmbeddedNode, topic: str, bodies: list[bytes], **headers: bytes) -> None:
    node.create_topic(topic)
    given: list[tuple[str, Any]] = [(f"hutong-dead-{name.replace('_', '-')}", value) for name, value in headers.items()]
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for body in bodies:
        producer.produce(topic, body, headers=[("hutong-dead-topic", b"users"), *given])
    producer.flush()


def sent_back(node: EmbeddedNode, topic: str) -> Counter[bytes]:
    found = values(read_partition(node.bootstrap, "users"))
    return Counter(value for value in found if value.startswith(topic.encode()))


def letters(topic: str, count: int) -> list[bytes]:
    return [f"{topic} {number}".encode() for number in range(count)]


def test_chosen_letters_are_sent_back_by_keyboard(open_page: OpenPage, node: EmbeddedNode) -> None:
    fill(node, "keys.dead", letters("keys.dead", 5), error_type=b"KeyError")
    page = open_page("/topics")
    page.keyboard.press("g")
    page.keyboard.press("d")
    link = page.get_by_role("link", name="keys.dead")
    expect(link).to_be_visible()
    link.focus()
    page.keyboard.press("Enter")
    wait_until_shown(page)
    page.get_by_label("Choose letter 0/4").focus()
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_label("Choose letter 0/3")).to_be_focused()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Redrive 2 letters").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("2 letters from users go to")).to_have_value("users")
    dialog.get_by_label("Letters a second").focus()
    page.keyboard.press("Enter")
    expect(
        page.get_by_role("region", name="Redrive").or_(page.locator("section[aria-label=Redrive]")).first
    ).to_contain_text("2 letters sent back")
    expect(page.get_by_text("sent back", exact=True)).to_have_count(2)
    assert sent_back(node, "keys.dead") == Counter([b"keys.dead 3", b"keys.dead 4"])


def test_all_letters_are_sent_back_by_mouse_and_steered(open_page: OpenPage, node: EmbeddedNode) -> None:
    fill(node, "mouse.dead", letters("mouse.dead", 40), error_type=b"ValueError", error_message=b"a negative price")
    page = open_page("/dead-letters")
    wait_until_shown(page)
    page.get_by_role("link", name="mouse.dead").click()
    page.get_by_role("button", name="Redrive all").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("The dry run found 40 letters.")
    assert violations(page) == []
    dialog.get_by_label("Letters a second").fill("10")
    dialog.get_by_role("button", name="Redrive 40 letters").click()
    expect(dialog).to_be_hidden()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("paused", exact=True)).to_be_visible()
    page.reload()
    # The redrive goes on in the console, not in the page.
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Cancel redrive").click()
    expect(page.get_by_text("cancelled", exact=True)).to_be_visible()
    page.get_by_role("button", name="Redrive all").click()
    dialog.get_by_role("button", name="Redrive").last.click()
    expect(page.get_by_text("done", exact=True)).to_be_visible()
    assert sent_back(node, "mouse.dead") == Counter(letters("mouse.dead", 40))


def test_hostile_letters_are_shown_and_nothing_runs(open_page: OpenPage, node: EmbeddedNode) -> None:
    hostile = b"<script>alert(1)</script>\x00\x1b"
    fill(node, "hostile.dead", HOSTILE, error_type=hostile, error_message=hostile, group=hostile, attempts=b"many")
    page = open_page("/dead-letters/hostile.dead")
    wait_until_shown(page)
    expect(page.get_by_role("row")).to_have_count(len(HOSTILE) + 1)
    assert sideways_px(page) == 0
    assert violations(page) == []
    for row in range(len(HOSTILE)):
        page.get_by_role("button", name="Look").nth(row).click()
        expect(page.get_by_role("dialog")).to_contain_text("alert(1)")
        page.keyboard.press("Escape")


def test_letters_of_no_known_origin_stay_until_a_topic_is_named(open_page: OpenPage, node: EmbeddedNode) -> None:
    node.create_topic("plain.dead")
    node.produce("plain.dead", b"plain.dead 0")
    page = open_page("/dead-letters/plain.dead")
    wait_until_shown(page)
    page.get_by_role("button", name="Redrive all").click()
    dialog = page.get_by_role("dialog")
    target = dialog.get_by_label("1 letter of no known origin go to")
    expect(target).to_have_value("")
    act = dialog.get_by_role("button", name="Redrive 1 letter")
    act.click()
    expect(dialog.get_by_role("alert").filter(has_text="Name the topics")).to_be_visible()
    target.fill("no-such")
    act.click()
    expect(dialog.get_by_role("alert").filter(has_text="no-such is not there")).to_be_visible()
    target.fill("users")
    act.click()
    expect(page.get_by_text("done", exact=True)).to_be_visible()
    assert sent_back(node, "plain.dead") == Counter([b"plain.dead 0"])


def test_a_topic_with_another_name_is_opened(open_page: OpenPage) -> None:
    page = open_page("/dead-letters")
    wait_until_shown(page)
    page.get_by_label("A topic with another name").fill("empty")
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_text("This topic has no letters.")).to_be_visible()


@pytest.mark.thorough
def test_the_pages_are_accessible(open_page: OpenPage, node: EmbeddedNode) -> None:
    fill(node, "axe.dead", letters("axe.dead", 3), error_type=b"KeyError")
    page = open_page("/dead-letters/axe.dead", width=320)
    wait_until_shown(page)
    assert sideways_px(page) == 0
    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    assert violations(page, "color-contrast") == []
