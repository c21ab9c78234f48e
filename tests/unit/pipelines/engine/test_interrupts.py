import logging
import signal

import pytest

from hutong.pipelines.engine.interrupts import as_event, undisturbed


def test_the_first_interrupt_is_an_event_and_the_second_an_interrupt() -> None:
    before = signal.getsignal(signal.SIGINT)
    with as_event() as interrupted:
        assert not interrupted.is_set()
        signal.raise_signal(signal.SIGINT)
        assert interrupted.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_handler_installed_meanwhile_is_taken_back() -> None:
    before, handlers = signal.getsignal(signal.SIGINT), list(logging.getLogger().handlers)
    with undisturbed():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is before
    logging.getLogger().handlers = handlers
