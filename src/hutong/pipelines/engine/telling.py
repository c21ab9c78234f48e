"""What a failing Python process of Spark leaves for people to read: one sentence, before anything else.

Spark carries an error from a Python worker to the user as the text of a Java exception, and its log prints that one's
stack trace before the user's program hears of it. So the sentence goes to standard error first, which comes out beside
the log, and Spark is asked to pass on the error alone, without the lines of our code that it came from.

Knows nothing of what went wrong. On the driver's side `failures` finds the sentence again.
"""

import os
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import TextIO

from hutong.foundation.errors import HutongError

ERRORS = "PYSPARK_HUTONG_ERRORS"  # what begins with HUTONG_ is a setting of a node
QUIET = "quiet"
"""Set for processes whose user is told by other means, as by our own command line."""
HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"
"""Read by pyspark's workers when they pass an exception on; such a worker ends afterwards."""


@contextmanager
def told(environment: MutableMapping[str, str] = os.environ, stream: TextIO | None = None) -> Iterator[None]:
    """Around what Spark calls in a process of its own."""
    try:
        yield
    except HutongError as error:
        environment[HIDE_TRACEBACK] = "1"
        if environment.get(ERRORS) != QUIET:
            to = sys.stderr if stream is None else stream
            to.write(f"hutong: {error}\n")
            to.flush()
        raise
