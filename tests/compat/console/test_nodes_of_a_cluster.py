"""The nodes of a real cluster, from outside: one dies and comes back, a move is slowed and taken back, a node hangs."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import Page, expect
from tests.compat.console.checks import violations
from tests.compat.console.conftest import OpenPage
from tests.compat.console.outside import console
from tests.support.cluster import Cluster
from tests.support.confluent import producer, send
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


TWO_REPLICAS = {"cluster.replicas": 2, "cluster.slots": 1, "cluster.session_timeout_ms": 20_000}
RECORDS, RECORD_BYTES = 8, 900_000


def replicas_of(page: Page, topic: str) -> list[int]:
    told = page.request.get(page.url.split("/nodes")[0] + f"/api/nodes/partitions?topic={topic}").json()
    replicas: list[int] = told["partitions"][0]["replicas"]
    return replicas


def test_a_move_that_runs_is_slowed_and_taken_back(open_page: OpenPage, tmp_path: Path) -> None:
    with Cluster(tmp_path, 3, TWO_REPLICAS) as cluster, console(cluster.bootstrap, tmp_path) as url:
        cluster.create_topic("orders", 1)
        values = [b"x" * RECORD_BYTES] * RECORDS
        send(producer(cluster.bootstrap, batch_num_messages=1), "orders", values)
        # What is in the leader's cache goes to a new replica at once, and only what comes from the disk has a pace.
        for node in cluster.nodes.values():
            node.stop()
            node.start()
            cluster.wait_whole("orders")
        page = open_page("/nodes", url=url)
        before = replicas_of(page, "orders")
        (free,) = {1, 2, 3} - {*before}
        page.get_by_role("button", name="Move replicas").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("combobox", name="Topic").fill("orders")
        dialog.get_by_role("textbox", name="Brokers").fill(f"{before[0]}, {free}")
        dialog.get_by_label("Bytes a second").fill("1")
        dialog.get_by_role("button", name="Preview move").click()
        expect(dialog).to_contain_text("Each node of the move copies at most 1 B a second until it is done.")
        assert violations(page) == []
        dialog.get_by_role("button", name="Move ").click()
        moves = page.get_by_role("table", name="Moves under way").get_by_role("row")
        expect(moves).to_have_count(2, timeout=PATIENCE_MS)
        expect(moves.nth(1)).to_contain_text("at most 1 B/s")
        assert violations(page) == []
        moves.nth(1).get_by_role("button", name="Take back").click()
        dialog.get_by_role("button", name="Take back").click()
        expect(page.get_by_text("Nothing is on its way.")).to_be_visible(timeout=PATIENCE_MS)
        assert replicas_of(page, "orders") == before
        cluster.wait_whole("orders")
        page.close()  # before the console that it asks


def test_a_controller_that_hangs_is_said_and_the_page_tries_again(open_page: OpenPage, tmp_path: Path) -> None:
    patient = {"cluster.session_timeout_ms": 60_000}
    with Cluster(tmp_path, 3, patient) as cluster, console(cluster.bootstrap, tmp_path) as url:
        page = open_page("/security", url=url)
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.get_by_text("Loading users")).to_have_count(0, timeout=PATIENCE_MS)
        controller = cluster.nodes[cluster.controller()]
        controller.pause()
        page.reload()
        problem = page.get_by_role("alert")
        expect(problem).to_contain_text("The brokers have not said within 15 s", timeout=PATIENCE_MS)
        expect(problem).to_contain_text("hutong cluster status")
        assert violations(page) == []
        controller.resume()
        problem.get_by_role("button", name="Try again").click()
        expect(problem).to_have_count(0, timeout=PATIENCE_MS)
        page.close()  # before the console that it asks
