"""Lines over time and stacked bars, as SVG without scripts: figures show where the pointer rests.

Strategy: a chart gets points, not Spark's terms. Many points are drawn together before they come here (`thinned`), so
that a page of a day's batches stays small.

Knows nothing of queries.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from hutong.pipelines.report.render.markup import SERIES_COLOUR_COUNT, element, escaped, number, svg, utc

WIDTH, HEIGHT = 1100.0, 210.0
LEFT, RIGHT, TOP, BOTTOM = 76.0, 12.0, 28.0, 24.0
INNER_WIDTH, INNER_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
VALUE_TICKS, PLACE_TICKS = 4, 9
POINT_COUNT_MAX = 240
DOT_COUNT_MAX = 60
"""Up to so many points are marked, so that one alone is seen."""
LONE_POINT_MS = 1000
BAR_WIDTH_MAX = 48.0
LETTER_WIDTH = 6.6
TIME_STEPS_S = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400, 604_800)

T = TypeVar("T")
Words = Callable[[float], str]
"""The format of a value in a chart."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line, or one part of each bar; None where there is no value."""

    name: str
    values: Sequence[float | None]


def thinned(items: Sequence[T], count_max: int = POINT_COUNT_MAX) -> list[list[T]]:
    """Group consecutive items into `count_max` groups at most; each item is in one."""
    groups = min(len(items), count_max)
    edges = [len(items) * index // groups for index in range(groups + 1)] if groups else [0]
    return [list(items[begin:end]) for begin, end in pairwise(edges)]


def lines_over_time(label: str, times_ms: Sequence[int], series: Sequence[Series], words: Words) -> str:
    """One line a series; all have a value or None for each of the times, which rise."""
    series = series[:SERIES_COLOUR_COUNT]
    top, ticks = _scale([value for line in series for value in line.values if value is not None])
    begin, end = (times_ms[0], times_ms[-1]) if times_ms else (0, 1)
    # A single batch would divide by a span of zero.
    if begin == end:
        begin, end = begin - LONE_POINT_MS, end + LONE_POINT_MS

    def across(time_ms: int) -> float:
        return LEFT + INNER_WIDTH * (time_ms - begin) / (end - begin)

    places = [across(time_ms) for time_ms in times_ms]
    parts = _frame(series, ticks, top, words)
    parts += [_place_tick(across(time_ms), text) for time_ms, text in _time_ticks(begin, end)]
    for colour, line in enumerate(series):
        parts.append(_line(places, line.values, top, colour))
        if len(places) <= DOT_COUNT_MAX:
            parts += _dots(places, line.values, top, colour)
    edges = [LEFT, *((left + right) / 2 for left, right in pairwise(places)), LEFT + INNER_WIDTH]
    for index, time_ms in enumerate(times_ms):
        tooltip = _tooltip(utc(time_ms), series, index, words)
        parts.append(_touch(edges[index], edges[index + 1], tooltip))
    return f"<div class='chart'>{svg(WIDTH, HEIGHT, label, ''.join(parts))}</div>"


def stacked_bars(label: str, names: Sequence[str], series: Sequence[Series], words: Words) -> str:
    """One bar a name, side by side, made of the values of all series."""
    series = series[:SERIES_COLOUR_COUNT]
    top, ticks = _scale([sum(line.values[index] or 0 for line in series) for index in range(len(names))])
    parts = _frame(series, ticks, top, words)
    pitch = min(INNER_WIDTH / max(1, len(names)), BAR_WIDTH_MAX)
    every = max(1, math.ceil(len(names) / PLACE_TICKS))
    for index, name in enumerate(names):
        left, height = LEFT + pitch * index, 0.0
        for colour, line in enumerate(series):
            part = INNER_HEIGHT * (line.values[index] or 0) / top
            if part > 0:
                foot = TOP + INNER_HEIGHT - height - part
                box = {"class": f"area s{colour}", "x": left + pitch * 0.1, "y": foot, "width": pitch * 0.8}
                parts.append(element("rect", {**box, "height": part}))
            height += part
        if index % every == 0:
            parts.append(_place_tick(left + pitch / 2, name.rpartition(" ")[2]))
        parts.append(_touch(left, left + pitch, _tooltip(name, series, index, words)))
    return f"<div class='chart'>{svg(WIDTH, HEIGHT, label, ''.join(parts))}</div>"


def _frame(series: Sequence[Series], ticks: Sequence[float], top: float, words: Words) -> list[str]:
    parts = []
    for tick in ticks:
        y = TOP + INNER_HEIGHT * (1 - tick / top)
        parts.append(element("path", {"class": "grid", "d": f"M{number(LEFT)} {number(y)}h{number(INNER_WIDTH)}"}))
        parts.append(_text(LEFT - 8, y + 4, words(tick), "end"))
    x = LEFT
    for colour, line in enumerate(series):
        parts.append(element("rect", {"class": f"area s{colour}", "x": x, "y": 7.0, "width": 10.0, "height": 10.0}))
        parts.append(_text(x + 15, 16, line.name, "start"))
        x += 15 + LETTER_WIDTH * len(line.name) + 18
    return parts


def _line(places: Sequence[float], values: Sequence[float | None], top: float, colour: int) -> str:
    """Interrupted where values are missing; a value between two missing ones is a dot."""
    way, is_down = [], False
    for index, (x, value) in enumerate(zip(places, values, strict=True)):
        if value is None:
            is_down = False
            continue
        y = TOP + INNER_HEIGHT * (1 - value / top)
        way.append(f"{'L' if is_down else 'M'}{number(x)} {number(y)}")
        ends = index + 1 == len(values) or values[index + 1] is None
        # A path of one point draws nothing.
        if not is_down and ends:
            way.append("h1")
        is_down = True
    return element("path", {"class": f"line s{colour}", "d": "".join(way) or "M0 0"})


def _dots(places: Sequence[float], values: Sequence[float | None], top: float, colour: int) -> list[str]:
    return [
        element("circle", {"class": f"area s{colour}", "cx": x, "cy": TOP + INNER_HEIGHT * (1 - value / top), "r": 2.4})
        for x, value in zip(places, values, strict=True)
        if value is not None
    ]


def _touch(left: float, right: float, tooltip: str) -> str:
    box: dict[str, object] = {"class": "touch", "x": left, "y": TOP, "width": max(0.0, right - left)}
    return element("rect", {**box, "height": INNER_HEIGHT}, element("title", {}, escaped(tooltip)))


def _tooltip(name: str, series: Sequence[Series], index: int, words: Words) -> str:
    values = [(line.name, line.values[index]) for line in series]
    return "\n".join([name, *(f"{what}: {words(value)}" for what, value in values if value is not None)])


def _place_tick(x: float, text: str) -> str:
    return _text(x, HEIGHT - 6, text, "middle")


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return element("text", {"x": float(x), "y": float(y), "class": "dim", "text-anchor": anchor}, escaped(text))


def _scale(values: Sequence[float]) -> tuple[float, list[float]]:
    """The end of the axis and its ticks: steps of 1, 2 or 5 times a power of ten."""
    most = max(values, default=0.0)
    # An axis of zeros has no power of ten.
    if most <= 0:
        return 1.0, [0.0]
    power = 10.0 ** math.floor(math.log10(most / VALUE_TICKS))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor * VALUE_TICKS >= most)
    count = math.ceil(most / step)
    return step * count, [step * index for index in range(count + 1)]


def _time_ticks(begin_ms: int, end_ms: int) -> list[tuple[int, str]]:
    span_s = (end_ms - begin_ms) / 1000
    step_s = next((step for step in TIME_STEPS_S if span_s / step <= PLACE_TICKS), None)
    # A log of years: whole weeks, as many as give few enough ticks.
    if step_s is None:
        step_s = math.ceil(span_s / PLACE_TICKS / 604_800) * 604_800
    step_ms = step_s * 1000
    first = -(-begin_ms // step_ms) * step_ms
    form = "%Y-%m-%d" if step_s >= 86_400 else "%m-%d %H:%M" if span_s > 86_400 else "%H:%M:%S"
    return [(time_ms, utc(time_ms, form)) for time_ms in range(first, end_ms + 1, step_ms)]
