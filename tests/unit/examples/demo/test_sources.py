"""The live sources: a web server that logs real requests, and the sampler of this machine."""

import re
import threading
from pathlib import Path

import pytest

from hutong.examples.demo.host_metrics import Sample, Sampler, sampling
from hutong.examples.demo.web_log import visit

COMBINED = re.compile(r'127\.0\.0\.1 - - \[[^]]+ \+0000\] "GET (\S+) HTTP/1\.1" (\d{3}) (\d+) "-" "hutong-demo/1"')


def test_every_request_is_one_line_with_its_status_and_size(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"x" * 1234)
    (tmp_path / "b.py").write_bytes(b"")
    (tmp_path / "b.pyc").write_bytes(b"12")
    matches = [COMBINED.fullmatch(line) for line in visit(tmp_path, ["/a.py", "/a.pyc", "/b.py", "/b.pyc"])]
    answers = [(match[1], match[2], match[3]) for match in matches if match]
    assert answers[0] == ("/a.py", "200", "1234")
    assert answers[1][:2] == ("/a.pyc", "404")
    assert answers[2:] == [("/b.py", "200", "0"), ("/b.pyc", "200", "2")]


def test_this_machine_has_a_load() -> None:
    samples = dict(Sampler().sample())
    assert {"cpu_percent", "memory_percent", "load", "processes"} <= samples.keys()
    assert samples["processes"] >= 1
    assert 0 < samples["memory_percent"] < 100


def test_sampling_ends_with_its_block() -> None:
    seen = threading.Event()
    times: list[int] = []

    def handle(time_ms: int, samples: list[Sample]) -> None:
        times.append(time_ms)
        if len(times) == 2:
            seen.set()

    with sampling(handle):
        assert seen.wait(20)
    assert times == sorted(times)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("demo-host-metrics")]


def test_an_error_of_the_receiver_reaches_the_owner() -> None:
    called = threading.Event()

    def handle(time_ms: int, samples: list[Sample]) -> None:
        called.set()
        raise LookupError("no room")

    with pytest.raises(LookupError, match="no room"), sampling(handle):
        assert called.wait(20)
