"""Safeguards to leave out, and how soon random histories notice it: the same histories in every run."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Safeguard:
    """A safeguard, the patch that leaves it out, and the transcript that must notice, None for the histories."""

    sentence: str
    leave_out: Patch
    transcript: Callable[[], None] | None = None

    def __str__(self) -> str:
        return self.leave_out.__name__


def histories_until_broken(
    history: type[RuleBasedStateMachine],
    leave_out: Patch,
    histories_max: int,
    steps_max: int,
    noticed_by: tuple[type[Exception], ...],
) -> int | None:
    """The number of histories until one breaks, by one of the errors `noticed_by`; None if all of them hold."""
    count = 0

    class Counted(history):  # type: ignore[misc, valid-type]  # the machine is the caller's
        def __init__(self) -> None:
            nonlocal count
            count += 1
            super().__init__()

    settings = hypothesis.settings(
        max_examples=histories_max,
        stateful_step_count=steps_max,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    with pytest.MonkeyPatch.context() as patch:
        leave_out(patch)
        try:
            run_state_machine_as_test(Counted, settings=settings)
        except noticed_by:
            return count - 1  # hypothesis runs the one that broke once more
    return None


def assert_transcript_notices(
    safeguard: Safeguard, patch: pytest.MonkeyPatch, errors: type[Exception] | tuple[type[Exception], ...]
) -> None:
    """Run the transcript with the safeguard and without: it covers a state that random histories hit too seldom."""
    assert safeguard.transcript is not None
    safeguard.transcript()
    safeguard.leave_out(patch)
    with pytest.raises(errors):
        safeguard.transcript()


def print_safeguards(safeguards: Iterable[Safeguard], search: Callable[[Safeguard], int | None]) -> None:
    """Print for each how many histories it took."""
    for safeguard in safeguards:
        noticed = "by its transcript"
        if safeguard.transcript is None:
            noticed = f"after {search(safeguard)} histories"
        print(f"{safeguard.sentence:60} {safeguard!s:50} {noticed}", flush=True)
