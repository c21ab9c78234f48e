"""Nodes in a simulation: what a crash leaves of the work under way, and plans that make it meet such work."""

from pathlib import Path

from tests.unit.testing.simulation.scene import Scene

from hutong.server.configuration.settings import Settings
from hutong.testing.simulation.nodes import SimNode
from hutong.testing.simulation.plan.drawing import draw_plan
from hutong.testing.simulation.plan.faults import kinds_of

NAME = Path("/data/log")


def test_a_crash_leaves_any_part_of_a_write_under_way_and_never_more_than_it() -> None:
    found = set()
    for seed in range(30):
        scene = Scene(seed)
        node = SimNode(scene.one, Settings())
        node.disk.make_directory(NAME.parent)
        file = node.disk.create(NAME)

        def write_and_flush(file: object = file) -> None:
            file.write([b"0123456789"], 0)  # type: ignore[attr-defined]
            file.flush()  # type: ignore[attr-defined]

        scene.process(scene.one).job_begins(write_and_flush, 1_000)
        node.kill()
        found.add(bytes(node.disk.open(NAME).read(100, 0)))
        # The next process can write again.
        node.disk.create(NAME)
    assert found == {b"", b"01234", b"0123456789"}


def test_plans_with_outages_have_nothing_but_crashes_and_only_where_these_are_asked_for() -> None:
    drawn = [draw_plan(seed, 0.1, kinds_of("node")) for seed in range(40)]
    outages = [plan for plan in drawn if {client.kind for client in plan.clients} == {"producer", "reader"}]
    outages = [plan for plan in outages if len(plan.faults) > 50]
    assert outages
    assert {fault.kind for plan in outages for fault in plan.faults} == {"kill", "power"}
    assert all(len(draw_plan(plan.seed, 0.1, kinds_of("network")).faults) <= 24 for plan in outages)
