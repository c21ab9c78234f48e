"""The page of an AsyncAPI document: all of it is there, links lead somewhere, and no text is markup."""

from html.parser import HTMLParser

import msgspec
from tests.unit.handlers.test_describe import large_app

from hutong.handlers import App

HOSTILE = "<script>alert(1)</script>\"'&"
VOID = {"meta", "br"}


class Page(HTMLParser):
    """The texts, identities and links of a page. Fails for tags that do not match."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.names: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        self.tags.add(tag)
        self.names += [values["id"] or ""] if "id" in values else []
        self.links += [values["href"] or ""] if "href" in values else []
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_operations_messages_and_models_are_there_and_links_lead_to_them() -> None:
    page = Page(large_app().asyncapi_page())
    for word in (
        "Billing 2.1",
        "Write an invoice.",
        "billing",
        "orders",
        "invoices",
        "prices.get",
        "Invoice",
        "text/plain",
    ):
        assert word in page.text
    assert "list of Line" in page.text
    assert "object with values of integer" in page.text
    assert "by default 1" in page.text
    assert "Answers with" in page.text
    assert len(set(page.names)) == len(page.names)
    assert {link.removeprefix("#") for link in page.links} <= set(page.names)
    assert large_app().asyncapi_page() == large_app().asyncapi_page()


def test_no_text_of_the_program_is_markup() -> None:
    class Order(msgspec.Struct):
        note: str = msgspec.field(default=HOSTILE, name="note<b>")

    Order.__doc__ = HOSTILE
    app = App("localhost:9092", title=HOSTILE, version=HOSTILE)

    @app.topic("orders", group="billing")
    def bill(order: Order) -> None: ...

    bill.__doc__ = HOSTILE
    page = Page(app.asyncapi_page())
    assert "script" not in page.tags
    assert page.text.count(HOSTILE) >= 3
    assert "note<b>" in page.text


class Node(msgspec.Struct):
    children: "list[Node]"
    parent: "Node | None" = None


def test_a_model_may_contain_itself() -> None:
    app = App("localhost:9092")

    @app.topic("nodes", group="tree")
    def keep(node: Node) -> None: ...

    page = Page(app.asyncapi_page())
    assert "list of Node" in page.text
    assert "Node or null" in page.text


def test_an_app_without_handlers_has_a_page() -> None:
    assert "1.0" in Page(App("localhost:9092", version="1.0").asyncapi_page()).text
