"""The stages of a job as a drawing: each stage a box, below those whose shuffled output it reads.

A box tells number, tasks, where in the code it was made, how long its tasks ran together and what it shuffled; the bar
at its foot is its share of the longest stage. Edges are the thicker the more was shuffled over them.

Knows nothing of where stages come from.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from hutong.pipelines.engine.stages import Stage, size
from hutong.pipelines.report.render.layers import Layout, Spot, arrange
from hutong.pipelines.report.render.markup import duration, element, escaped, number, shortened, svg

STAGE_COUNT_MAX = 200
"""More would be no picture any more; the last ones are drawn."""
ROW_STAGE_COUNT_MAX = 5
NODE_WIDTH, NODE_HEIGHT = 216.0, 62.0
GAP, ROW_GAP, MARGIN = 16.0, 34.0, 10.0
NAME_COLUMNS = 29
EDGE_WIDTH_MAX = 4.5
NO_STAGES = "Spark ran no stages."


def stage_dag_svg(stages: Sequence[Stage]) -> str:
    """A whole SVG document, light or dark as the viewer is. Texts are escaped; it names no other file."""
    return stage_dag(stages, alone=True)


def stage_dag(stages: Sequence[Stage], *, alone: bool = False) -> str:
    """The drawing for a page that has the style sheet already, or `alone`."""
    drawn = {stage.stage_id: stage for stage in sorted(stages, key=lambda stage: stage.stage_id)[-STAGE_COUNT_MAX:]}
    if not drawn:
        text = element("text", {"x": MARGIN, "y": 24.0, "class": "dim"}, NO_STAGES)
        return svg(NODE_WIDTH, 40.0, NO_STAGES, text, alone=alone)
    layout = arrange({number: stage.waits_for for number, stage in drawn.items()}, NODE_WIDTH, GAP, ROW_STAGE_COUNT_MAX)
    left_out = len({stage.stage_id for stage in stages}) - len(drawn)
    top = MARGIN + (20.0 if left_out else 0.0)
    longest_ms = max(stage.run_time_ms for stage in drawn.values()) or 1
    parts = [_left_out(left_out)] if left_out else []
    parts += _edges(layout, drawn, top)
    parts += [_box(stage, _corner(layout, stage.stage_id, top), longest_ms) for stage in drawn.values()]
    height = top + len(layout.rows) * (NODE_HEIGHT + ROW_GAP) - ROW_GAP + MARGIN
    return svg(layout.width + 2 * MARGIN, height, f"{len(drawn)} stages", "".join(parts), alone=alone)


def stage_title(stage: Stage) -> str:
    """Return the stage's operators if known: the place in the code is the same for all stages of a SQL statement."""
    return " → ".join(stage.operators) or stage.name


def _left_out(stage_count: int) -> str:
    text = f"The last {STAGE_COUNT_MAX} stages; {stage_count} earlier ones are left out."
    return element("text", {"x": MARGIN, "y": 18.0, "class": "dim"}, text)


def _corner(layout: Layout, node: int, top: float) -> tuple[float, float]:
    spot = Spot(node, layout.home[node])
    return MARGIN + layout.centres[spot] - NODE_WIDTH / 2, top + spot.row * (NODE_HEIGHT + ROW_GAP)


def _box(stage: Stage, corner: tuple[float, float], longest_ms: int) -> str:
    x, y = corner
    kind = {"FAILED": "failed", "ACTIVE": "active", "SKIPPED": "skipped"}.get(stage.status, "done")
    name = shortened(stage_title(stage), NAME_COLUMNS)
    parts = [
        element("title", {}, escaped(_tooltip(stage))),
        element(
            "rect", {"class": f"node {kind}", "x": x, "y": y, "width": NODE_WIDTH, "height": NODE_HEIGHT, "rx": 5.0}
        ),
        _text(x + 9, y + 18, "strong", f"{stage.stage_id}"),
        _text(x + NODE_WIDTH - 9, y + 18, "dim", _state(stage), end=True),
        _text(x + 9, y + 35, "", name),
        _text(x + 9, y + 51, "dim", _shuffled(stage)),
    ]
    if stage.run_time_ms:
        share = max(2.0, (NODE_WIDTH - 10) * stage.run_time_ms / longest_ms)
        bar = {"class": "heat", "x": x + 5, "y": y + NODE_HEIGHT - 5, "width": share, "height": 3.0, "rx": 1.5}
        parts.append(element("rect", {**bar}))
    return element("g", {}, "".join(parts))


def _text(x: float, y: float, kind: str, text: str, *, end: bool = False) -> str:
    return element(
        "text", {"x": x, "y": y, "class": kind} | ({"text-anchor": "end"} if end else {}), escaped(text) or " "
    )


def _state(stage: Stage) -> str:
    tasks = f"{stage.task_count:,} task{'s' * (stage.task_count != 1)}"
    if stage.status == "SKIPPED":
        return f"{tasks}, kept from before"
    if stage.status in {"FAILED", "ACTIVE", "PENDING", "STOPPED"}:
        return f"{tasks}, {stage.status.lower()}"
    return f"{tasks}, {duration(stage.run_time_ms)}"


def _shuffled(stage: Stage) -> str:
    read, written = size(stage.shuffle_read_bytes), size(stage.shuffle_write_bytes)
    parts = [f"in {read}"] * bool(stage.shuffle_read_bytes) + [f"out {written}"] * bool(stage.shuffle_write_bytes)
    return " · ".join(parts)


def _tooltip(stage: Stage) -> str:
    lines = [f"stage {stage.stage_id}: {stage.name}", f"{stage.status.lower()}, {stage.task_count:,} tasks"]
    lines.append(f"tasks ran {duration(stage.run_time_ms)} together")
    lines += [f"operators: {', '.join(stage.operators)}"] if stage.operators else []
    lines += [f"shuffled: {_shuffled(stage)}"] if _shuffled(stage) else []
    lines += [f"reads the output of {', '.join(map(str, stage.waits_for))}"] if stage.waits_for else []
    return "\n".join(lines)


def _edges(layout: Layout, drawn: Mapping[int, Stage], top: float) -> Iterable[str]:
    most = max((stage.shuffle_write_bytes for stage in drawn.values()), default=0) or 1
    for upper, lower in layout.links:
        share = math.sqrt(drawn[upper.node].shuffle_write_bytes / most)
        way = _way(layout, upper, lower, top)
        yield element("path", {"class": "edge", "d": way, "stroke-width": 1 + (EDGE_WIDTH_MAX - 1) * share})


def _way(layout: Layout, upper: Spot, lower: Spot, top: float) -> str:
    """From the foot of a box to the head of another; where an edge passes a row it goes straight through."""
    begin_x, end_x = MARGIN + layout.centres[upper], MARGIN + layout.centres[lower]
    begin_y = top + upper.row * (NODE_HEIGHT + ROW_GAP) + NODE_HEIGHT
    end_y = top + lower.row * (NODE_HEIGHT + ROW_GAP)
    bend = (begin_y + end_y) / 2
    curve = f"C{number(begin_x)} {number(bend)} {number(end_x)} {number(bend)} {number(end_x)} {number(end_y)}"
    through = f"V{number(end_y + NODE_HEIGHT)}" if layout.is_joint(lower) else ""
    return f"M{number(begin_x)} {number(begin_y)}{curve}{through}"
