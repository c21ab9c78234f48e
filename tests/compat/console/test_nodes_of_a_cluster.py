"""The nodes of a real cluster, seen from outside while one of them dies and comes back."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import expect
from tests.compat.console.conftest import OpenPage
from tests.compat.console.outside import console
from tests.support.dev_cluster import DevCluster

pytestmark = [pytest.mark.compat, pytest.mark.thorough, pytest.mark.timeout(300)]
PATIENCE_MS = 60_000


def test_a_node_dies_and_leads_again(open_page: OpenPage, tmp_path: Path) -> None:
    with DevCluster(tmp_path, 3) as cluster, console(cluster.addresses[1], tmp_path) as url:
        admin = AdminClient({"bootstrap.servers": cluster.addresses[1]})
        for made in admin.create_topics([NewTopic("orders", 6, 3)]).values():
            made.result(30)
        page = open_page("/nodes", url=url)
        brokers = page.get_by_role("table", name="Brokers").get_by_role("row")
        expect(brokers).to_have_count(4)
        cluster.kill(3)
        expect(brokers.nth(3)).to_contain_text("not there", timeout=PATIENCE_MS)
        lacking = page.get_by_role("table", name="Partitions that lack a leader or replicas").get_by_role("row")
        expect(lacking).to_have_count(7, timeout=PATIENCE_MS)
        page.get_by_role("link", name="Overview", exact=True).click()
        expect(page.locator(".health-warn")).to_be_visible()
        page.get_by_role("link", name="Open nodes").click()
        cluster.start(3)
        expect(brokers.nth(3)).not_to_contain_text("not there", timeout=PATIENCE_MS)
        # The cluster may have elected by itself meanwhile; the answer of the brokers is the same.
        page.get_by_role("button", name="Elect preferred leaders").or_(
            page.get_by_text("led by its first replica")
        ).click()
        elect = page.get_by_role("dialog").get_by_role("button", name="Elect leaders")
        if elect.is_visible():
            elect.click()
        expect(page.get_by_text("Each partition is led by its first replica.")).to_be_visible(timeout=PATIENCE_MS)
        expect(lacking).to_have_count(0, timeout=PATIENCE_MS)
        page.close()  # before the console that it asks
