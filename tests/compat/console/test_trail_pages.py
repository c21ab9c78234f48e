"""A record's way with spans of several nodes, as strangers would tell them: in a browser, by keyboard and by mouse."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect
from tests.compat.console.checks import sideways_px, violations
from tests.compat.console.conftest import OpenPage
from tests.compat.console.shop_program import HOSTILE, TRACE

pytestmark = pytest.mark.compat
NOW_MS = 1_790_000_000_000


def span(number: int, parent: int | None, name: str, begin_ms: float, **more: Any) -> dict[str, Any]:
    return {
        "trace": TRACE,
        "id": f"{number:016x}",
        "parent": None if parent is None else f"{parent:016x}",
        "name": name,
        "kind": "consumer",
        "begin_ms": NOW_MS + begin_ms,
        "duration_ms": 2,
        "error": None,
        "attributes": [],
        **more,
    }


def tell(page: Page, own: dict[str, Any], *others: dict[str, Any]) -> None:
    """Have node 1 and the other nodes tell this."""
    answer = {"node": 1, "others": [2, 3, 4], "is_traced": True, "spans": [], "truncated": False, **own}
    lines = [f"event: node\ndata: {json.dumps(each)}\n\n" for each in others]
    stream = "".join([*lines, "event: end\ndata: {}\n\n"])
    page.route("**/api/trail/spans?*", lambda route: route.fulfill(json=answer))
    page.route("**/spans/others?*", lambda route: route.fulfill(body=stream, content_type="text/event-stream"))


def test_spans_of_other_nodes_in_an_order_that_can_have_been(open_page: OpenPage) -> None:
    page = open_page("/trail")
    hidden = span(3, 2, HOSTILE, 3, error=HOSTILE, attributes=[["<b>name</b>", HOSTILE]])
    of_second = [span(2, 1, "process orders", -900), hidden, span(1, None, "the same id as node 1's", 5)]
    tell(
        page,
        {"spans": [span(1, None, "request orders", 0)]},
        {"node": 2, "is_traced": True, "spans": of_second, "truncated": False},
        {"node": 3, "missing": "has not answered in time"},
        {"node": 4, "is_traced": False, "spans": [], "truncated": False},
    )
    page.get_by_label("Follow by").select_option("trace")
    page.get_by_label("Value").fill(TRACE)
    page.keyboard.press("Enter")
    spans = page.locator(".hop-span")
    expect(spans).to_have_count(3)
    expect(spans.first).to_contain_text("request orders handled node 1 took")
    expect(spans.nth(1)).to_contain_text("after its parent, by another clock")
    expect(spans.nth(1)).to_contain_text("process orders handled node 2 took 2 ms within request orders")
    expect(spans.nth(2)).to_contain_text("<img src=x onerror=alert(1)>⟨U+202E⟩␀")
    expect(page.get_by_text("Some spans are missing: node 3 has not answered in time.")).to_be_visible()
    expect(page.get_by_text("These nodes keep no spans: 4. Set console.tracing = true there")).to_be_visible()
    expect(
        page.get_by_text("Clocks differ: 1 span would begin before the parent, and is shown after it.")
    ).to_be_visible()
    spans.nth(2).locator("summary").focus()
    page.keyboard.press("Enter")
    expect(spans.nth(2)).to_contain_text("<b>name</b>")
    assert HOSTILE not in page.content()
    assert violations(page) == []
    page.set_viewport_size({"width": 320, "height": 800})
    assert sideways_px(page) <= 0


def test_a_stream_that_breaks_leaves_what_is_there(open_page: OpenPage) -> None:
    page = open_page("/trail")
    tell(page, {"spans": [span(1, None, "request orders", 0)]})
    asked: list[str] = []

    def refuse(route: Route) -> None:
        asked.append(route.request.url)
        route.abort()

    page.route("**/spans/others?*", refuse)
    page.get_by_label("Follow by").select_option("trace")
    page.get_by_label("Value").fill(TRACE)
    page.get_by_label("Topics, with commas").fill("empty")  # other files' topics may be long
    page.get_by_role("button", name="Follow").click()
    expect(page.locator(".hop-span")).to_have_count(1)
    expect(page.get_by_text("0 places found")).to_be_visible()
    assert len(asked) <= 1


def test_batches_of_pipelines_are_on_the_axis(open_page: OpenPage) -> None:
    page = open_page("/trail")
    place = {"topic": "orders.eu", "partition": 0, "is_certain": True}
    batch = {
        "pipeline": "hours",
        "query": HOSTILE,
        "batch_id": 1_234,
        "started_ms": NOW_MS + 40,
        "duration_ms": 310,
        "row_count": 5,
        "to_topic": "paid",
        "to_path": None,
        "read": [{**place, "offset": offset} for offset in range(8)],
    }
    first = {**batch, "batch_id": 0, "to_topic": None, "to_path": HOSTILE, "started_ms": NOW_MS + 20}
    first["read"] = [{**place, "offset": 0, "is_certain": False}]
    hop = {**place, "offset": 0, "timestamp_ms": NOW_MS, "reason": "same key", "key": "k", "value": "v", "trace": None}
    end = {
        "topic": None,
        "topics_done": 1,
        "topics_total": 1,
        "looked_at": 9,
        "hops": 1,
        "is_cut": False,
        "is_ended": True,
    }
    told = [("hop", {**hop, "letter": None, "readers": []}), ("batch", batch), ("batch", first), ("progress", end)]
    stream = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in told)
    page.route("**/api/trail?*", lambda route: route.fulfill(body=stream, content_type="text/event-stream"))
    page.get_by_label("Value").fill("k")
    page.get_by_role("button", name="Follow").click()
    items = page.locator(".hop")
    expect(items).to_have_count(3)
    expect(items.nth(1)).to_contain_text("Pipeline hours · batch 0 read took 310 ms, 5 rows")
    expect(items.nth(1)).to_contain_text("which may have begun after the record")
    expect(items.nth(1)).to_contain_text("<img src=x onerror=alert(1)>⟨U+202E⟩␀")
    expect(items.last).to_contain_text("Pipeline hours · batch 1,234 read")
    expect(items.last).to_contain_text("and 2 more")
    expect(items.last).not_to_contain_text("may have begun")
    assert HOSTILE not in page.content()
    assert violations(page) == []
    page.set_viewport_size({"width": 320, "height": 800})
    assert sideways_px(page) <= 0
    items.last.get_by_role("link", name="paid").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/topics/paid$"))
