"""One sentence for the user from a failing Python process of Spark, before any stack trace.

Spark carries an error from a Python worker to the user as the text of a Java exception, and logs its stack trace before
the user's program receives it. So the sentence goes to standard error first, and Spark is asked to pass on the error
without our stack trace.

Knows nothing of causes. On the driver's side `failures` finds the sentence again.
"""

import os
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import TextIO

from hutong.foundation.errors import HutongError

ERRORS = "PYSPARK_HUTONG_ERRORS"  # what begins with HUTONG_ is a setting of a node
QUIET = "quiet"
"""Set for processes whose parent reports errors itself, such as our own command line."""
HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"
"""Read by pyspark's workers when they pass an exception on; such a worker ends afterwards."""


@contextmanager
def failures_reported(
    environment: MutableMapping[str, str] = os.environ, stream: TextIO | None = None
) -> Iterator[None]:
    """Surround a function that Spark calls in its own process: write the sentence of an error to `stream`."""
    try:
        yield
    except HutongError as error:
        environment[HIDE_TRACEBACK] = "1"
        if environment.get(ERRORS) != QUIET:
            to = sys.stderr if stream is None else stream
            to.write(f"hutong: {error}\n")
            to.flush()
        raise
