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
    """What a package may have at most, and of comments at least."""

    wh_docstrings: int
    banned_phrases: int
    comments_of_100_lines: float


PACKAGES: Final = {
    "hutong": Allowed(0, 0, 0.0),
    "broker": Allowed(120, 75, 1.3),
    "bus": Allowed(99, 71, 2.9),
    "cli": Allowed(22, 29, 0.9),
    "foundation": Allowed(16, 20, 2.3),
    "groups": Allowed(118, 50, 2.6),
    "journal": Allowed(95, 87, 2.7),
    "pipelines": Allowed(0, 7, 1.4),
    "reactor": Allowed(59, 33, 3.6),
    "remoting": Allowed(13, 13, 3.3),
    "rpc": Allowed(0, 1, 2.9),
    "runtime": Allowed(17, 13, 3.8),
    "scheduler": Allowed(4, 6, 3.0),
    "security": Allowed(0, 0, 3.1),
    "server": Allowed(57, 32, 1.0),
    "testing": Allowed(22, 18, 1.9),
    "tracing": Allowed(0, 0, 0.4),
    "transactions": Allowed(17, 6, 2.3),
    "wire": Allowed(0, 1, 1.2),
}

# Classes of one name. Each is a deliberate twin (one word of the field, in packages that do not know each other) or
# waits for a name of its own. Schemas of Kafka's requests are left out: their nested classes have Kafka's names.
TWINS: Final = frozenset(
    """
    Absent Address Admission Answer Asked Assigned Batch Behind Bounds Buried Bury Caller Catalogue Client
    CommittedOffset Connection Credentials Decision Delivery End Endpoint Entry Failure Fault FetchSettings
    Field Finished Fixed Found GroupDescription GroupKey GroupSettings Heartbeat Iteration Job Jobs Kind Lane
    Later Leave Listener Login Lost Member MemberDescription Memory Message Node Note Noted Offer Opened
    Operation Outcome Owner Pace Parameter Partition Persist PersistFailed Persisted Phase Problem Progress
    Record Refusal Reply Request Round Route Rules Run Seat Services Session Settle Source Span State StateLog
    StatePort Store Stored StoredGroup Stream Surroundings Tick Topic TopicPartition TopicsChanged
    TransactionSettings Transactions Transport Verdict Wait Waiting Window _Batch _Commit _Horizon _Kept _Line
    _Message _Node _Parser _Reader _Refusal _Run _Seat _Slice _State
    """.split()  # noqa: SIM905
)

# Pages that have not been rewritten yet, with how many banned phrases and long paragraphs each may have.
PAGES: Final[dict[str, tuple[int, int]]] = {
    "README.md": (2, 1),
    "ARCHITECTURE.md": (1, 0),
    "CONTRIBUTING.md": (2, 0),
    "docs/admin.md": (1, 0),
    "docs/bench.md": (5, 3),
    "docs/bridges.md": (9, 0),
    "docs/bus.md": (4, 0),
    "docs/cli.md": (1, 0),
    "docs/compatibility.md": (6, 0),
    "docs/contexts.md": (3, 0),
    "docs/delivery-deduplicated.md": (5, 0),
    "docs/durability-tests.md": (4, 4),
    "docs/durability.md": (1, 2),
    "docs/durable-addresses.md": (2, 1),
    "docs/essays/continuations.md": (8, 4),
    "docs/faults.md": (11, 3),
    "docs/getting-started.md": (1, 1),
    "docs/groups.md": (4, 1),
    "docs/grpc.md": (4, 0),
    "docs/network.md": (3, 0),
    "docs/operations.md": (6, 2),
    "docs/pipelines-declared.md": (5, 0),
    "docs/pipelines-deployment.md": (3, 0),
    "docs/pipelines-jobs-windows.md": (1, 2),
    "docs/pipelines-jobs.md": (3, 0),
    "docs/pipelines-report.md": (1, 1),
    "docs/pipelines-sink.md": (2, 0),
    "docs/pipelines-source.md": (2, 1),
    "docs/pipelines.md": (1, 1),
    "docs/reactor.md": (1, 0),
    "docs/retention.md": (4, 2),
    "docs/rpc-connections.md": (5, 1),
    "docs/rpc-testing.md": (1, 0),
    "docs/rpc-tutorial.md": (2, 0),
    "docs/rpc.md": (5, 2),
    "docs/security.md": (12, 2),
    "docs/share-groups.md": (1, 0),
    "docs/testing.md": (1, 0),
    "docs/tracing.md": (4, 1),
    "docs/transactions.md": (4, 0),
    "docs/tutorial.md": (5, 0),
    "bench/README.md": (8, 1),
}


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
    phrases_max, paragraphs_max = PAGES.get(str(path.relative_to(measures.ROOT)), (0, 0))
    phrases = measures.banned_phrases(measures.prose(text))
    assert len(phrases) <= phrases_max, phrases
    paragraphs = measures.long_paragraphs(text, PARAGRAPH_WORDS_MAX)
    assert len(paragraphs) <= paragraphs_max, paragraphs


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
