"""Stages as SVG: well-formed whatever Spark says, readable by what stands in it."""

from typing import Any
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from hutong.pipelines.engine.stages import Stage
from hutong.pipelines.report.render.dag import STAGE_COUNT_MAX, stage_dag, stage_dag_svg

SVG = "{http://www.w3.org/2000/svg}"


def stage(stage_id: int, waits_for: tuple[int, ...] = (), **fields: Any) -> Stage:
    given: dict[str, Any] = {
        "name": "reduceByKey at mine.py:3",
        "status": "COMPLETE",
        "task_count": 4,
        "run_time_ms": 1500,
    }
    given |= {"shuffle_read_bytes": 0, "shuffle_write_bytes": 0, "rdd_ids": frozenset()} | fields
    return Stage(stage_id=stage_id, waits_for=waits_for, **given)


def texts(markup: str) -> list[str]:
    return ["".join(node.itertext()) for node in ElementTree.fromstring(markup).iter(f"{SVG}text")]


def test_a_box_tells_what_the_stage_did() -> None:
    drawn = stage_dag_svg([stage(0, shuffle_write_bytes=2048), stage(1, (0,), status="SKIPPED", shuffle_read_bytes=5)])
    assert texts(drawn) == [
        *("0", "4 tasks, 1.50 s", "reduceByKey at mine.py:3", "out 2.0 KiB"),
        *("1", "4 tasks, kept from before", "reduceByKey at mine.py:3", "in 5 B"),
    ]
    assert len(list(ElementTree.fromstring(drawn).iter(f"{SVG}path"))) == 1
    assert "<style>" in drawn
    assert "<style>" not in stage_dag([stage(0)])


def test_only_the_last_are_drawn_of_very_many() -> None:
    drawn = stage_dag_svg([stage(number, (number - 1,)) for number in range(STAGE_COUNT_MAX + 7)])
    assert texts(drawn)[0] == f"The last {STAGE_COUNT_MAX} stages; 7 earlier ones are left out."
    assert texts(drawn)[1] == "7"


def test_no_stages_are_said_to_be_none() -> None:
    assert texts(stage_dag_svg([])) == ["Spark ran no stages."]


names = st.text() | st.sampled_from(
    ["<script>alert(1)</script>", '"><g onload="x"', "]]>", "&amp;", "\x00\ud800\uffff"]
)
stages = st.builds(
    stage,
    st.integers(0, 20),
    st.lists(st.integers(0, 20), max_size=3).map(tuple),
    name=names,
    status=names,
    task_count=st.integers(0, 10**9),
    run_time_ms=st.integers(0, 10**12),
    shuffle_read_bytes=st.integers(0, 10**18),
    shuffle_write_bytes=st.integers(0, 10**18),
)


@settings(deadline=None, max_examples=25)
@given(st.lists(stages, max_size=20))
def test_the_document_is_well_formed_and_holds_nothing_active(told: list[Stage]) -> None:
    document = ElementTree.fromstring(stage_dag_svg(told))
    known = {"svg", "style", "rect", "g", "title", "text", "path"}
    assert {node.tag.removeprefix(SVG) for node in document.iter()} <= known
    assert not any(name.startswith("on") or "href" in name for node in document.iter() for name in node.attrib)
