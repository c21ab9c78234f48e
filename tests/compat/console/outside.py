"""A console of a process of its own, in front of brokers that it does not belong to."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def console(bootstrap: str, home: Path) -> Iterator[str]:
    """The address of a console of its own process."""
    command = [sys.executable, "-m", "hutong", "console", "--bootstrap", bootstrap, "--listen", "127.0.0.1:0", "--json"]
    environment = {**os.environ, "HOME": str(home)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        yield f"http://{json.loads(process.stdout.readline())['console']}"
        process.terminate()
        process.wait(30)
