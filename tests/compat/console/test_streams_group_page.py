"""The page of a streams group whose member is Kafka Streams itself (KIP-1071)."""

from pathlib import Path

import pytest
from confluent_kafka import Producer
from playwright.sync_api import expect
from tests.compat.console.checks import violations
from tests.compat.console.conftest import OpenPage
from tests.compat.test_kafka_streams import instance
from tests.support.node import Node

pytestmark = [pytest.mark.compat, pytest.mark.thorough, pytest.mark.timeout(300)]


def test_tasks_and_lag_of_an_application(open_page: OpenPage, tmp_path: Path) -> None:
    with Node(tmp_path, "console.listen=127.0.0.1:0") as node:
        producer = Producer({"bootstrap.servers": node.address})
        for topic in ("app-lines", "app-counts"):
            producer.list_topics(topic, timeout=10)
        with instance(node.address, tmp_path / "one"):
            page = open_page("/groups", url=f"http://{node.process.fields['console']}")
            row = page.get_by_role("row").filter(has_text="app")
            expect(row).to_contain_text("streams")
            row.get_by_role("link").click()
            expect(page.get_by_role("heading", level=1)).to_have_text("app")
            member = page.locator(".member")
            expect(member).to_contain_text("StreamThread-1-consumer")
            expect(member).to_contain_text("subtopology 0")
            expect(member).to_contain_text("subtopology 1")
            producer.produce("app-lines", "some words")
            producer.flush()
            offsets = page.get_by_role("region", name="Offsets by partition").locator("tbody tr")
            expect(offsets.filter(has_text="app-lines").locator("td").last).to_have_text("0")
            expect(page.get_by_text("kafka-streams-groups.sh")).to_be_visible()
            assert violations(page) == []
            page.close()  # before the console that it asks
