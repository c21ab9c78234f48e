import io

import pytest

from hutong.foundation.errors import UsageError
from hutong.pipelines.engine.failure_reports import ERRORS, HIDE_TRACEBACK, QUIET, failures_reported


def test_the_sentence_comes_first_and_the_traceback_not_at_all() -> None:
    environment: dict[str, str] = {}
    stream = io.StringIO()
    with pytest.raises(UsageError), failures_reported(environment, stream):
        raise UsageError("topic t does not exist")
    assert stream.getvalue() == "hutong: topic t does not exist\n"
    assert environment == {HIDE_TRACEBACK: "1"}


def test_nothing_is_told_twice_to_those_who_hear_of_it_otherwise() -> None:
    environment = {ERRORS: QUIET}
    stream = io.StringIO()
    with pytest.raises(UsageError), failures_reported(environment, stream):
        raise UsageError("topic t does not exist")
    assert stream.getvalue() == ""


def test_faults_of_ours_keep_their_traceback() -> None:
    environment: dict[str, str] = {}
    stream = io.StringIO()
    with pytest.raises(KeyError), failures_reported(environment, stream):
        raise KeyError("a fault")
    assert (environment, stream.getvalue()) == ({}, "")
