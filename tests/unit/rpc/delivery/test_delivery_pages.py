"""The pages of delivery semantics: every sentence names a test, and the test is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
PAGES = sorted((ROOT / "docs").glob("delivery-*.md"))
TESTS = set(
    re.findall(
        r"^(?:async )?def (test_\w+)", "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py")), re.M
    )
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_sentence_names_a_test_that_is_there(page: Path) -> None:
    text = page.read_text()
    named = set(re.findall(r"`(test_\w+)`", text))
    assert named - TESTS == set()
    claims = re.split(r"\n\| \| Shown by \|\n", text)[1].split("\n\n")[0].splitlines()[1:]
    assert [claim for claim in claims if "`test_" not in claim] == []


def test_there_is_a_page_for_each() -> None:
    assert [page.stem for page in PAGES] == [
        "delivery-at-least-once",
        "delivery-at-most-once",
        "delivery-deduplicated",
    ]
