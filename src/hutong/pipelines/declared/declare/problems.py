"""Problems of a pipeline's declaration, collected so that a user can fix all of them at once."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field

from hutong.foundation.errors import ExitCode, UsageError


@dataclass(frozen=True, slots=True)
class DeclarationProblem:
    """One problem to fix. A `mild` one is listing and does not prevent the run."""

    where: str
    """Such as `sources.web.value_format`."""
    what: str
    mild: bool = False
    passing: bool = False
    """True if it may disappear without a change of the file, such as a broker that does not answer."""

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(slots=True)
class Problems:
    """The problems found so far."""

    found: list[DeclarationProblem] = field(default_factory=list)

    def add(self, where: str, what: str, *, mild: bool = False, passing: bool = False) -> None:
        problem = DeclarationProblem(where, what, mild, passing)
        if problem not in self.found:
            self.found.append(problem)

    @property
    def grave(self) -> list[DeclarationProblem]:
        """Those that keep the pipeline from running."""
        return [problem for problem in self.found if not problem.mild]

    def raise_grave(self, name: str) -> None:
        """Raises UsageError with all that is grave, if anything is."""
        if not self.grave:
            return
        listing = "".join(f"\n  {problem}" for problem in self.grave)
        is_passing = all(problem.passing for problem in self.grave)
        raise UsageError(
            f"pipeline {name} cannot run:{listing}", ExitCode.UNAVAILABLE if is_passing else ExitCode.CONFIG
        )


def suggestion(given: str, known: Iterable[str]) -> str:
    """`; did you mean X?`, or what there is to choose from, or nothing."""
    choices = list(known)
    folded = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(given.lower(), folded, n=1)
    if close:
        return f"; did you mean {folded[close[0]]}?"
    return f"; there are {', '.join(choices)}" if choices else ""
