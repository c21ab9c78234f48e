"""Words: pages that a stranger reads, docstrings that begin with a verb or a noun, and names that a search finds.

The numbers of a package are what it had when it was last looked at. Lower them with each change that allows it, and
raise the comments: `python tests/unit/house/measures.py` prints the table of today.
"""

from pathlib import Path
from typing import Final, NamedTuple

import pytest
from tests.unit.house import measures

ARCHITECTURE_WORDS_MAX: Final = 1800
PACKAGE_PAGE_WORDS_MAX: Final = 600
PARAGRAPH_WORDS_MAX: Final = 90


class Allowed(NamedTuple):
    """The limits of one package: most lines, fewest comments."""

    wh_docstrings: int
    banned_phrases: int
    comments_of_100_lines: float


PACKAGES: Final = {
    "hutong": Allowed(0, 0, 0),
    "broker": Allowed(0, 0, 4.1),
    "bus": Allowed(0, 0, 5.8),
    "cli": Allowed(0, 1, 2.3),
    "examples": Allowed(0, 0, 1.1),
    "foundation": Allowed(0, 0, 5.4),
    "groups": Allowed(0, 0, 5.8),
    "handlers": Allowed(0, 0, 4.4),
    "journal": Allowed(0, 3, 5.8),
    "pipelines": Allowed(0, 7, 2.3),
    "reactor": Allowed(0, 2, 6.2),
    "remoting": Allowed(0, 0, 5.0),
    "rpc": Allowed(0, 1, 3.9),
    "runtime": Allowed(0, 0, 5.1),
    "scheduler": Allowed(0, 0, 8.1),
    "security": Allowed(0, 0, 5.3),
    "server": Allowed(0, 0, 1.8),
    "testing": Allowed(0, 0, 3.5),
    "tracing": Allowed(0, 0, 2.3),
    "transactions": Allowed(0, 0, 6.9),
    "wire": Allowed(0, 0, 2.8),
}

# Classes of one name. Each is a deliberate twin (one word of the field, in packages that do not know each other) or
# waits for a name of its own. Schemas of Kafka's requests are left out: their nested classes have Kafka's names.
TWINS: Final = frozenset(
    """
    Delivery Record Topic TopicPartition
    """.split()  # noqa: SIM905
)


@pytest.fixture(scope="module")
def texts() -> dict[str, list[str]]:
    return {package: [path.read_text() for path in paths] for package, paths in measures.sources().items()}


@pytest.mark.parametrize("package", sorted(measures.sources()))
def test_a_package_says_things_no_worse_than_before(package: str, texts: dict[str, list[str]]) -> None:
    allowed = PACKAGES.get(package, Allowed(0, 0, 0))
    found = texts[package]
    assert sum(len(measures.wh_openings(text)) for text in found) <= allowed.wh_docstrings
    assert sum(len(measures.banned_phrases(text)) for text in found) <= allowed.banned_phrases
    assert measures.comments_of_100_lines(found) >= allowed.comments_of_100_lines


def test_a_class_has_a_name_of_its_own() -> None:
    paths = [
        path for found in measures.sources().values() for path in found if "wire/kafka/apis" not in path.as_posix()
    ]
    assert measures.twin_classes(path.read_text() for path in paths) - TWINS == set()


@pytest.mark.parametrize("path", measures.pages(), ids=lambda path: str(path.relative_to(measures.ROOT)))
def test_a_page_is_in_plain_words_and_short_paragraphs(path: Path) -> None:
    text = path.read_text()
    assert measures.banned_phrases(measures.prose(text)) == []
    assert measures.long_paragraphs(text, PARAGRAPH_WORDS_MAX) == []


def test_the_architecture_is_on_one_screen() -> None:
    assert len((measures.ROOT / "ARCHITECTURE.md").read_text().split()) <= ARCHITECTURE_WORDS_MAX


@pytest.mark.parametrize("path", sorted(measures.SOURCE.glob("*/README.md")), ids=lambda path: path.parent.name)
def test_the_page_of_a_package_is_short(path: Path) -> None:
    assert len(path.read_text().split()) <= PACKAGE_PAGE_WORDS_MAX


@pytest.mark.parametrize("text", ["Who may write.", "What a log keeps.", "If there is one."])
def test_a_docstring_that_begins_with_a_question_word_is_found(text: str) -> None:
    assert measures.wh_openings(f'def close() -> None:\n    """{text}"""\n')


@pytest.mark.parametrize("text", ["Close the segment.", "Whole batches.", "Iffy names."])
def test_other_docstrings_are_not(text: str) -> None:
    assert not measures.wh_openings(f'def close() -> None:\n    """{text}"""\n')


@pytest.mark.parametrize("text", ["All but for one.", "It is told.", "It lies there.", "Beside it.", "Whoever asks."])
def test_a_banned_phrase_is_found(text: str) -> None:
    assert len(measures.banned_phrases(text)) == 1


def test_ordinary_words_are_not() -> None:
    assert measures.banned_phrases("Besides, earlier replies relies on standards, and a client tells it.") == []


def test_comments_are_counted_by_lines() -> None:
    assert measures.comments_of_100_lines(["x = 1  # why\n# more\ny = '#'\nz = 2  # noqa: E501\n"]) == 50
