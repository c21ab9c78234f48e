"""kcat and Kafka's own command-line tools at a secured node: one command a step, its output where it fails.

What a command cannot do is left out: kcat makes no topics, so that the node makes them when they are asked for.
"""

import pathlib
import re
import shutil
import subprocess
from collections.abc import Sequence
from typing import Final

from tests.compat.secured.access import Access
from tests.compat.secured.jobs import CREATE, KNOCK, READ, RECORDS, WORK, WRITE, Driver, Job, check
from tests.support.kafka_tools import Tools

KCAT: Final = shutil.which("kcat") or shutil.which("kafkacat")
COMMAND_S_MAX: Final = 40.0
TOLD_LENGTH_MAX: Final = 600
LINES: Final = "".join(f"{number}\n" for number in range(RECORDS))


class Refused(Exception):
    """A command failed. The message is what it wrote."""


def kcat(job: Job) -> str:
    member = ["-G", job.name if job.action == WORK else f"{job.name}-group", "-X", "auto.offset.reset=earliest", "-q"]
    steps: dict[str, list[tuple[list[str], str]]] = {
        WORK: [(["-P", "-t", job.name], LINES), ([*member, "-c", str(RECORDS), job.name], "")],
        KNOCK: [(["-L", "-m", "5"], "")],
        WRITE: [(["-P", "-t", job.name], "0\n")],
        READ: [([*member, "-c", "1", job.name], "")],
    }
    try:
        for words, given in steps[job.action]:
            seen = _kcat(job.access, words, given)
        if job.action == WORK:
            check(sorted(seen.split()), sorted(LINES.split()), "records")
    except (AssertionError, Refused) as error:
        return str(error)
    return ""


def _kcat(access: Access, words: Sequence[str], given: str) -> str:
    told = access.librdkafka()
    bootstrap = told.pop("bootstrap.servers")
    settings = [word for name, value in told.items() for word in ("-X", f"{name}={value}")]
    command = [str(KCAT), "-b", bootstrap, *settings, *words]
    try:
        ran = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=COMMAND_S_MAX)
    except subprocess.TimeoutExpired as error:
        raise Refused(f"kcat did not end: {error.stderr!r}") from None
    if ran.returncode:
        raise Refused(" ".join(ran.stderr.split())[:TOLD_LENGTH_MAX])
    return ran.stdout


def kafka_tools(tools: Tools, folder: pathlib.Path) -> Driver:
    def attempt(job: Job) -> str:
        path = folder / "client.properties"
        told = job.access.java()
        bootstrap = told.pop("bootstrap.servers")
        path.write_text("".join(f"{name}={value}\n" for name, value in {**told, **PATIENCE}.items()))
        by = ["--bootstrap-server", bootstrap, "--command-config", str(path)]

        def run(tool: str, *words: str, given: str = "") -> str:
            status, out, err = tools.run(tool, [*words, *by], given, COMMAND_S_MAX)
            if status != "0" or re.search(r"Exception|ERROR", out + err):
                raise Refused(" ".join((out + err).split())[:TOLD_LENGTH_MAX])
            return out

        consume = ("console-consumer", "--topic", job.name, "--from-beginning", "--timeout-ms", "15000")
        try:
            if job.action in (WORK, CREATE):
                run("topics", "--create", "--topic", job.name, "--partitions", "2")
            if job.action in (WORK, WRITE):
                run("console-producer", "--topic", job.name, given=LINES)
            if job.action == WORK:
                seen = run(*consume, "--group", job.name, "--max-messages", str(RECORDS))
                check(sorted(seen.split()), sorted(LINES.split()), "records")
                shown = run("consumer-groups", "--describe", "--group", job.name)
                check(_committed(shown, job.name), RECORDS, shown)
                run("topics", "--delete", "--topic", job.name)
            if job.action == READ:
                run(*consume, "--group", f"{job.name}-group", "--max-messages", "1")
            if job.action == KNOCK:
                run("topics", "--list")
        except (AssertionError, Refused) as error:
            return str(error)
        return ""

    return attempt


def _committed(shown: str, group: str) -> int:
    """The sum of the offsets in a table of `consumer-groups --describe`."""
    return sum(int(line.split()[3]) for line in shown.splitlines() if line.startswith(group))


PATIENCE: Final = {"default.api.timeout.ms": "15000", "request.timeout.ms": "15000"}
