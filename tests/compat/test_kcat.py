"""kcat, the command-line client of librdkafka."""

import json
import re
import shutil
import subprocess

import pytest
from tests.compat.report import cells

KCAT = shutil.which("kcat") or shutil.which("kafkacat")
pytestmark = pytest.mark.skipif(KCAT is None, reason="kcat is not installed")
DEADLINE_S = 30.0


def version() -> str:
    told = subprocess.run([str(KCAT), "-V"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"Version (\S+) .*librdkafka ([0-9.]+)", told)
    return f"{found[1]} (librdkafka {found[2]})" if found else ""


FILLS = cells("kcat", version)


def kcat(bootstrap: str, *words: str, standard_input: bytes = b"") -> bytes:
    command = [str(KCAT), "-b", bootstrap, *words]
    return subprocess.run(command, input=standard_input, capture_output=True, check=True, timeout=DEADLINE_S).stdout


@FILLS("headers", "compression")
def test_lists_produces_and_consumes(bootstrap: str, topic: str) -> None:
    metadata = json.loads(kcat(bootstrap, "-L", "-J"))
    assert [broker["name"] for broker in metadata["brokers"]] == [bootstrap]
    assert topic in [found["topic"] for found in metadata["topics"]]
    lines = b"".join(b"%d:value %d\n" % (number, number) for number in range(100))
    kcat(bootstrap, "-P", "-t", topic, "-K", ":", "-H", "from=kcat", "-z", "lz4", standard_input=lines)
    read = kcat(bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%o %k %s %h\n").splitlines()
    assert read == [b"%d %d value %d from=kcat" % (number, number, number) for number in range(100)]


@FILLS("group-commit")
def test_balanced_consumer_resumes(bootstrap: str, topic: str) -> None:
    def consume(count: int) -> bytes:
        return kcat(bootstrap, "-G", topic, topic, "-c", str(count), "-q", "-X", "auto.offset.reset=earliest")

    kcat(bootstrap, "-P", "-t", topic, standard_input=b"0\n1\n2\n3\n4\n")
    assert consume(3) == b"0\n1\n2\n"
    assert consume(2) == b"3\n4\n"


@FILLS("offsets-for-times")
def test_query_of_offsets_by_time(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, standard_input=b"0\n1\n")
    assert kcat(bootstrap, "-Q", "-t", f"{topic}:0:1").split() == [f"{topic}".encode(), b"[0]", b"offset", b"0"]
