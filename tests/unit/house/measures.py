"""Measures of words: openings of docstrings, banned phrases, comments and class names, by package.

Strategy: regular expressions over the lines, since parsing a hundred thousand lines takes longer than a test may. A
docstring is a line that begins with three quotes and a word. Knows nothing of what is allowed: `test_words` does.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
SOURCE: Final = ROOT / "src" / "hutong"

OPENING: Final = re.compile(r'^ *r?"""(\w+)', re.MULTILINE)
WH_WORDS: Final = frozenset(
    "who whom whose what whether which how when where why whoever whatever if".split()  # noqa: SIM905
)
BANNED: Final = re.compile(
    r"\b(?:but for|(?:is|are|was|were|be|been) told|to be had|whoever|lies|stands|so much|beside)\b", re.IGNORECASE
)
COMMENT: Final = re.compile(r"(?:^|  )\s*#(?! *(?:noqa|type:|pragma|fmt:))", re.MULTILINE)
CLASS: Final = re.compile(r"^ *class (\w+)", re.MULTILINE)


def sources() -> dict[str, list[Path]]:
    """The modules of each package, by its name; modules of `hutong` itself under its own."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).parts
        found[parts[0] if len(parts) > 1 else "hutong"].append(path)
    return dict(found)


def pages() -> list[Path]:
    """Every page for people: those of the root and of docs, and those that open a package."""
    root = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")]
    return [*root, *sorted((ROOT / "docs").rglob("*.md")), ROOT / "bench/README.md", *sorted(SOURCE.rglob("*.md"))]


def wh_openings(text: str) -> list[str]:
    """Docstrings that begin with a question word, by that word."""
    return [word for word in OPENING.findall(text) if word.lower() in WH_WORDS]


def banned_phrases(text: str) -> list[str]:
    return BANNED.findall(text)


def comments_of_100_lines(texts: Iterable[str]) -> float:
    lines = comments = 0
    for text in texts:
        lines += text.count("\n")
        comments += len(COMMENT.findall(text))
    return 100 * comments / max(lines, 1)


def twin_classes(texts: Iterable[str]) -> set[str]:
    """Names that more than one class has."""
    counts = Counter(name for text in texts for name in CLASS.findall(text))
    return {name for name, count in counts.items() if count > 1}


def prose(text: str) -> str:
    """A page without its blocks of code, tables of code in backticks included."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def long_paragraphs(text: str, words_max: int) -> list[str]:
    """The beginnings of paragraphs with more words; a table's row or an item of a list counts by itself."""
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*|]|\d+\.) )", prose(text))
    return [block.strip()[:60] for block in blocks if len(block.split()) > words_max]


if __name__ == "__main__":
    for package, paths in sources().items():
        found = [path.read_text() for path in paths]
        wh = sum(len(wh_openings(text)) for text in found)
        banned = sum(len(banned_phrases(text)) for text in found)
        print(f'    "{package}": Allowed({wh}, {banned}, {comments_of_100_lines(found):.2f}),')
