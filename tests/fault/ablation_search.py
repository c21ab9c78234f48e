"""How soon histories by chance notice that a safeguard is missing: the same histories in every run.

Knows no safeguard: a patch leaves one out.
"""

from collections.abc import Callable

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test


def histories_until_broken(
    history: type[RuleBasedStateMachine],
    leave_out: Callable[[pytest.MonkeyPatch], None],
    histories_max: int,
    steps_max: int,
    noticed_by: tuple[type[Exception], ...],
) -> int | None:
    """How many histories it takes until one breaks, by one of the errors `noticed_by`; None if all of them hold."""
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
