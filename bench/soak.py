"""A node's memory over time: `python -m bench soak [--minutes 60]`.

Strategy: a steady mixed load at a rate that leaves the machine room: producers with and without idempotence, consumers
at the end that commit, one that reads old data again and again, and clients that come and go (`bench.churn`). Retention
is short, so that segments die as fast as they are made. The node's memory is read each second from /proc. What counts
is the resident size at the end, compared with that after the first minute, both as medians of ten seconds. Threads and
open files are printed too, since they leak as memory does.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from bench.processes import ReadyProcess
from bench.steady import Load, Topics
from bench.targets import hutong_command, scratch_folder

MINUTE_S = 60
WINDOW_S = 10
SETTINGS = {
    "log.segment_bytes": 16 << 20,
    "log.retention_ms": 30_000,
    "log.retention_check_interval_ms": 5_000,
    "log.producer_id_expiration_ms": 30_000,  # so that what is remembered of producers is all there in a minute
}


@dataclass(frozen=True, slots=True)
class Sample:
    """A process at one moment: kilobytes resident, those of them that no file backs, threads, open files."""

    rss_kb: int
    anonymous_kb: int
    threads: int
    files: int

    @classmethod
    def of(cls, pid: int) -> "Sample":
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
        fields = {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}
        kilobytes, threads = (int(fields[name][0]) for name in ("VmRSS", "RssAnon")), int(fields["Threads"][0])
        return cls(*kilobytes, threads, len(os.listdir(f"/proc/{pid}/fd")))


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=int, default=20_000, help="records a second of each of two producers")
    parser.add_argument("--dir", help="where the data goes (default: the temporary folder)")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    options = arguments(words)
    samples: list[Sample] = []
    with ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(scratch_folder(options.dir)))
        settings = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
        command = [*hutong_command(folder / "data"), *settings]
        node = stack.enter_context(ReadyProcess(command, log_path=str(folder / "node.log")).start())
        churn = _start_load(node.fields["kafka"], options.rate, stack)
        begun_s = time.monotonic()
        while time.monotonic() - begun_s < options.minutes * MINUTE_S:
            samples.append(Sample.of(int(node.fields["pid"])))
            if len(samples) % MINUTE_S == 0:
                _tell(f"minute {len(samples) // MINUTE_S}", samples[-WINDOW_S:])
            if churn.poll() is not None:
                print(f"the clients that come and go ended with {churn.returncode}", file=sys.stderr)
                return 1
            time.sleep(max(0.0, begun_s + len(samples) - time.monotonic()))
        held = sum(path.stat().st_blocks * 512 for path in (folder / "data").rglob("*") if path.is_file())
        print(f"data folder: {held / 1e6:.0f} MB; log of the node: {node.log_tail().count(chr(10))} lines")
    early, late = samples[MINUTE_S - WINDOW_S : MINUTE_S], samples[-WINDOW_S:]
    _tell("after a minute", early)
    _tell("at the end", late)
    print(f"ratio of resident sizes: {_median(late, 'rss_kb') / _median(early, 'rss_kb'):.3f}")
    return 0


def _start_load(bootstrap: str, rate: int, stack: ExitStack) -> "subprocess.Popen[str]":
    plain, idempotent = Topics("plain", 4, 4), Topics("idempotent", 1, 4)
    for topics in (plain, idempotent):
        topics.create(bootstrap)
        stack.enter_context(Load("produce", bootstrap, topics, rate=rate, idempotent=int(topics is idempotent)))
        stack.enter_context(Load("consume", bootstrap, topics, group=f"tail-{topics.prefix}", commit=1))
    stack.enter_context(Load("consume", bootstrap, plain, group="cold", cold=1, rate=rate))
    churn = subprocess.Popen([sys.executable, "-m", "bench.churn", bootstrap], stdout=subprocess.PIPE, text=True)
    stack.callback(churn.communicate)
    stack.callback(churn.terminate)
    assert churn.stdout
    churn.stdout.readline()
    return churn


def _median(samples: Sequence[Sample], field: str) -> float:
    return statistics.median(getattr(sample, field) for sample in samples)


def _tell(when: str, samples: Sequence[Sample]) -> None:
    print(
        f"{when}: resident {_median(samples, 'rss_kb') / 1e3:.1f} MB, of it anonymous "
        f"{_median(samples, 'anonymous_kb') / 1e3:.1f} MB; {_median(samples, 'threads'):.0f} threads, "
        f"{_median(samples, 'files'):.0f} open files",
        flush=True,
    )
