"""The memory of calls in histories by chance: no effect twice, and an answer once given is given again."""

import hypothesis
import pytest
from hypothesis import HealthCheck
from hypothesis.stateful import run_state_machine_as_test
from tests.fault.ablation_search import Safeguard, assert_transcript_notices
from tests.fault.call_ablations import SAFEGUARDS, histories_until_noticed
from tests.fault.call_history import CallHistory

pytestmark = pytest.mark.fault


def test_no_effect_happens_twice_and_an_answer_is_given_again() -> None:
    settings = hypothesis.settings(
        max_examples=150, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(CallHistory, settings=settings)


@pytest.mark.parametrize("safeguard", [each for each in SAFEGUARDS if each.transcript is None], ids=str)
def test_a_safeguard_switched_off_breaks_a_history(safeguard: Safeguard) -> None:
    assert histories_until_noticed(safeguard), f"nothing shows that {safeguard.sentence}"


@pytest.mark.parametrize("safeguard", [each for each in SAFEGUARDS if each.transcript is not None], ids=str)
def test_a_safeguard_switched_off_breaks_its_transcript(safeguard: Safeguard, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_transcript_notices(safeguard, monkeypatch, AssertionError)
