"""A picture of measurements: `python -m bench picture FIGURES.json PICTURE.svg`.

Strategy: FIGURES is what `--json` writes. Each row becomes a bar: how many times better the target is than the
baseline, whichever way the figure goes. The axis is logarithmic, so that twice as good and half as good are equally
long. Colours suit pages that are light or dark.
"""

import argparse
import json
import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

WIDTH: Final = 760
LABEL_WIDTH: Final = 340
ROW_HEIGHT: Final = 26
TOP: Final = 48
BAR_HEIGHT: Final = 14
VALUE_WIDTH: Final = 62  # room behind the longest bar for its number
TICKS: Final = (0.25, 0.5, 1, 2, 5, 10, 20, 50)
BETTER, WORSE, GREY = "#2f7d5b", "#b0562f", "#8a8f98"


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("python -m bench picture", description=__doc__)
    parser.add_argument("figures", type=Path, help="a file that --json has written")
    parser.add_argument("picture", type=Path, help="the SVG to write")
    parser.add_argument("--target", default="hutong", help="whose figures (default %(default)s)")
    options = parser.parse_args(words)
    options.picture.write_text(drawn(json.loads(options.figures.read_text()), options.target))
    return 0


def drawn(figures: dict[str, Any], target: str) -> str:
    """The SVG. Rows without a ratio of this target are left out."""
    rows = [
        (f"{row['measurement']}: {row['figure']}", float(row["times_better_than_baseline"][target]))
        for row in figures["rows"]
        if row["times_better_than_baseline"].get(target)
    ]
    if not rows:
        raise ValueError(f"no figure of {target} has a ratio to {figures['baseline']}")
    smallest = min(0.5, *(times for _, times in rows))
    largest = max(2.0, *(times for _, times in rows))
    scale = (WIDTH - LABEL_WIDTH - VALUE_WIDTH) / math.log(largest / smallest)

    def x(times: float) -> float:
        return LABEL_WIDTH + math.log(times / smallest) * scale

    height = TOP + ROW_HEIGHT * len(rows) + 8
    title = f"Times as good as {figures['baseline']}, on a logarithmic scale"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13" role="img">',
        f"<title>{escape(title)}</title>",
        f'<text x="8" y="18" fill="{GREY}">{escape(title)}</text>',
    ]
    for tick in TICKS:
        if smallest <= tick <= largest:
            stroke = "1.5" if tick == 1 else "0.5"
            parts.append(
                f'<path d="M{x(tick):.1f} {TOP - 6}V{height - 6}" stroke="{GREY}" stroke-width="{stroke}"/>'
                f'<text x="{x(tick):.1f}" y="{TOP - 10}" fill="{GREY}" text-anchor="middle">{tick:g}</text>'
            )
    for number, (label, times) in enumerate(rows):
        parts.append(_bar(label, times, x(1), x(times), TOP + number * ROW_HEIGHT))
    return "\n".join([*parts, "</svg>\n"])


def _bar(label: str, times: float, at_one: float, at_times: float, y: float) -> str:
    left, right = sorted((at_one, at_times))
    middle = y + BAR_HEIGHT - 2
    colour = BETTER if times >= 1 else WORSE
    return (
        f'<text x="{LABEL_WIDTH - 10}" y="{middle}" fill="{GREY}" text-anchor="end">{escape(label)}</text>'
        f'<rect x="{left:.1f}" y="{y}" width="{max(1.0, right - left):.1f}" height="{BAR_HEIGHT}" fill="{colour}"/>'
        f'<text x="{right + 6:.1f}" y="{middle}" fill="{colour}">{times:.3g}</text>'
    )
