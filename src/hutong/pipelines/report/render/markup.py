"""Text, numbers and SVG elements for a page.

Strategy: every text passes `escaped`, which also removes characters that XML forbids, so that names and error messages
of jobs stay text. Colours are classes, so that one style sheet serves light and dark; a separate drawing contains it
(`alone`), a page has it once.

Knows nothing of Spark.
"""

import html
import re
import unicodedata
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

SERIES_COLOUR_COUNT = 8
"""The number of series colours in the style sheet."""
STYLE_FILE = Path(__file__).with_name("style.css")


@cache
def style() -> str:
    """The style sheet of pages and drawings."""
    return STYLE_FILE.read_text(encoding="utf-8")


def escaped(text: object) -> str:
    """Text for an element or a quoted attribute."""
    return html.escape(FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", str(text)))


def number(value: float) -> str:
    """A coordinate: a tenth of a pixel is enough."""
    text = f"{value:.1f}"
    return text.removesuffix(".0")


def element(name: str, attributes: dict[str, object], content: str = "") -> str:
    """`content` is markup already."""
    pairs = "".join(
        f' {key}="{number(value) if isinstance(value, float) else escaped(value)}"' for key, value in attributes.items()
    )
    return f"<{name}{pairs}>{content}</{name}>" if content else f"<{name}{pairs}/>"


def svg(width: float, height: float, label: str, content: str, *, alone: bool = False) -> str:
    """A drawing. `label` is what is read to those who cannot see it."""
    size = f'width="{number(width)}" height="{number(height)}" viewBox="0 0 {number(width)} {number(height)}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escaped(label)}">'
    ground = f"<style>{style()}</style>" + element("rect", {"class": "paper", "width": width, "height": height})
    return f"{head}{ground if alone else ''}{content}</svg>"


def shortened(text: str, columns_max: int) -> str:
    """Cut in the middle if it is longer than the given columns; letters of East Asia take two."""
    if _columns(text) <= columns_max:
        return text
    head, tail = "", ""
    while _columns(head) + _columns(tail) < columns_max - 2 and text:
        head, text = head + text[0], text[1:]
        if text:
            text, tail = text[:-1], text[-1] + tail
    return f"{head}…{tail}"


def duration(milliseconds: float) -> str:
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def count(value: float) -> str:
    """A number with thousands apart, whole from a hundred on."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.1f}"


def utc(time_ms: int | None, form: str = "%Y-%m-%d %H:%M:%S UTC") -> str:
    """A Unix time for people; a dash for none."""
    if time_ms is None:
        return "-"
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime(form)
    except (ValueError, OverflowError, OSError):  # an event log may hold any number
        return f"{time_ms} ms"


def _columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)
