"""What a log shows of a run: what is new, not more often than is worth reading."""

from io import StringIO

from hutong.foundation.clock import ManualClock
from hutong.pipelines.engine.progress import LINE_INTERVAL_MS, Lines


def test_off_a_terminal_the_newest_line_is_shown_once_an_interval() -> None:
    stream, clock = StringIO(), ManualClock()
    lines = Lines(stream, clock)
    lines.show("starting")
    lines.show("batch 0")
    clock.advance(LINE_INTERVAL_MS)
    lines.show("batch 1")
    lines.show("batch 2")
    assert stream.getvalue() == "starting\nbatch 1\n"


def test_what_did_not_change_is_not_shown_again() -> None:
    stream, clock = StringIO(), ManualClock()
    lines = Lines(stream, clock)
    lines.show("waiting")
    clock.advance(LINE_INTERVAL_MS)
    lines.show("waiting")
    clock.advance(1)
    lines.show("batch 0")
    assert stream.getvalue() == "waiting\nbatch 0\n"
