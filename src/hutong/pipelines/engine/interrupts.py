"""Ctrl-C while Java is at work.

PySpark installs a handler of its own that calls into Java from wherever it was interrupted, which may be the middle of
another such call; that fails loudly. Here an interrupt is an ordinary KeyboardInterrupt, or, for streams, an event.
"""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def undisturbed() -> Iterator[None]:
    """Restore the previous signal handler after the block. Of no effect outside the main thread."""
    before = signal.getsignal(signal.SIGINT)
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(logging.NullHandler())  # py4j logs each interrupt at the root logger, with a stack trace
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


@contextmanager
def as_event() -> Iterator[threading.Event]:
    """Yield an event that the first interrupt sets; a second one is a KeyboardInterrupt. For the main thread."""
    interrupted = threading.Event()
    before = signal.getsignal(signal.SIGINT)

    def note(_number: int, _frame: FrameType | None) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()

    signal.signal(signal.SIGINT, note)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)
