"""Each safeguard of the journal switched off must be noticed: a crash test that cannot fail proves nothing."""

import pytest
from tests.fault.ablation_search import Safeguard, assert_transcript_notices
from tests.fault.ablations import SAFEGUARDS, histories_until_noticed

from hutong.foundation.errors import CorruptData


@pytest.mark.parametrize("safeguard", [each for each in SAFEGUARDS if each.transcript is None], ids=str)
def test_a_safeguard_switched_off_breaks_a_history(safeguard: Safeguard) -> None:
    assert histories_until_noticed(safeguard), f"nothing shows that {safeguard.sentence}"


@pytest.mark.parametrize("safeguard", [each for each in SAFEGUARDS if each.transcript is not None], ids=str)
def test_a_safeguard_switched_off_breaks_its_transcript(safeguard: Safeguard, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_transcript_notices(safeguard, monkeypatch, (AssertionError, CorruptData))
