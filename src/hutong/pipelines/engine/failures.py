"""Finds the sentence worth reading in what Spark raises.

An error of ours in a Python worker arrives wrapped: as text of a traceback, in a Java exception, in a Python exception
again. What the user needs is its last line.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from hutong.foundation.errors import ExitCode, HutongError, ProtocolError, Refused, UsageError
from hutong.pipelines.errors import AccessDenied, BadRecord, DataLost, HalfDone, Outdated, TakenOver, Unavailable

OURS = re.compile(r"(?:^|: )hutong\.[\w.]*\.(?P<kind>[A-Z]\w+): (?P<message>.+)$", re.MULTILINE)
CAUSE = re.compile(
    r"^(?:Caused by: |\s*: )?(?:[\w$]+\.)*(?P<kind>[A-Z]\w*(?:Exception|Error)): (?P<message>.+)$", re.MULTILINE
)
EXIT_CODES = {
    UsageError.__name__: ExitCode.USAGE,
    DataLost.__name__: ExitCode.DATAERR,
    BadRecord.__name__: ExitCode.DATAERR,
    ProtocolError.__name__: ExitCode.DATAERR,
    TakenOver.__name__: ExitCode.PROTOCOL,
    Outdated.__name__: ExitCode.PROTOCOL,
    HalfDone.__name__: ExitCode.UNAVAILABLE,
    Unavailable.__name__: ExitCode.UNAVAILABLE,
    Refused.__name__: ExitCode.PROTOCOL,
    AccessDenied.__name__: ExitCode.NOPERM,
}
CONDITION = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
STATE = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)
POSITION = re.compile(r"line (\d+),? pos(?:ition)? (\d+)")
WORKER_LOST = ("Python worker failed to connect back", "Python worker exited unexpectedly")
"""Spark's words for a Python worker that was killed, or that a busy machine did not start in time."""


def translate(error: Exception) -> HutongError:
    """One sentence for what Spark raised, with an exit code; the original is to be kept as its cause."""
    text = str(error)
    ours = list(OURS.finditer(text))
    if ours:
        return UsageError(ours[-1]["message"], EXIT_CODES.get(ours[-1]["kind"], ExitCode.SOFTWARE))
    may_pass = any(words in text for words in WORKER_LOST)
    return UsageError(f"Spark failed: {first_cause(error)}", ExitCode.UNAVAILABLE if may_pass else ExitCode.SOFTWARE)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn what Spark raises in the block into a UsageError of one sentence, with nothing of Java around it.

        with plain_errors():
            query.awaitTermination()

    Other errors are let through. For scripts; `translate` is for those who want to keep Spark's own error, too.
    """
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, import_module("py4j.protocol").Py4JError) as error:
        raise translate(error) from None


def first_cause(error: Exception) -> str:
    """The innermost message in an error's text."""
    text = str(error)
    causes = list(CAUSE.finditer(text))
    return causes[-1]["message"] if causes else text.strip().partition("\n")[0]


def analysis_sentence(error: Exception) -> str:
    """Return an analysis error in one line, without codes and plans: Spark's sentence, and its place in the query."""
    text = str(error).strip()
    if not CONDITION.match(text):
        return str(translate(error))
    position = POSITION.search(text)
    message = " ".join(STATE.sub("", CONDITION.sub("", text)).split())
    place = f" (line {position[1]}, column {int(position[2]) + 1})" if position else ""
    return f"{message}{place}"
