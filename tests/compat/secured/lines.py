"""A client's program in another language that does one job after the other: a line in, a line out.

Strategy: a job is `key=value` words with tabs between, an answer is the error, empty for none. The program is started
by its first job, so that what nobody asks costs nothing. Knows nothing of the jobs.
"""

import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Self

ANSWER_S_MAX: Final = 90.0


class Lines:
    """The program. `with Lines(command) as program`; `command` is asked when the program is first needed."""

    def __init__(self, command: Callable[[], Sequence[str]], environment: Mapping[str, str] | None = None) -> None:
        self._command = command
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None

    def ask(self, words: Mapping[str, str]) -> str:
        """The answer. One that does not come in time ends the program."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\t".join(f"{key}={value}" for key, value in words.items()) + "\n")
        process.stdin.flush()
        killer = threading.Timer(ANSWER_S_MAX, process.kill)
        killer.start()
        try:
            line = process.stdout.readline()
        finally:
            killer.cancel()
        if line:
            return line.rstrip("\n")
        self._stop()
        return "the program ended, or did not answer"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=self._environment,
            )
        return self._process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process:
            process.kill()
            process.communicate()
