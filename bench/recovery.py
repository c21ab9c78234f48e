"""The restart time of a node with much data after kill -9: `python -m bench recovery [--gigabytes 10]`.

Strategy: a real node is filled by a real producer with large records, then loaded with small ones (the worst a scan can
meet) and killed in the middle of it. Each turn starts a node on the same folder and takes the time from the start of
the process to the ready line, to the first record acknowledged and to the first one fetched from the middle of the
data; then it is loaded and killed again. Every second turn the files are dropped from the machine's page cache first,
as after a cold start. Whether all that was acknowledged is there, is for the tests of kill -9 to say.

What was scanned comes from the node's own log.
"""

import argparse
import os
import pathlib
import re
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Final

from bench.kafka_bytes import FetchLayout, fetch_request
from bench.processes import ReadyProcess
from bench.raw_client import BrokerError, RawConnection, first_acknowledged
from bench.steady import Load, Topics
from bench.targets import hutong_command, scratch_folder

FILL_VALUE_BYTES: Final = 16_000
SMALL_VALUE_BYTES: Final = 100
FREE_SHARE_MIN: Final = 1.5  # of what is filled: the disk is not ours alone
_REPORT: Final = re.compile(rb": (\d+) bytes were checked")


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench recovery", description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=10.0)
    parser.add_argument("--topics", type=int, default=1)
    parser.add_argument("--partitions", type=int, default=1, help="of each topic")
    parser.add_argument("--turns", type=int, default=4, help="kills; every second start has a cold page cache")
    parser.add_argument("--load-seconds", type=float, default=8.0, help="before each kill")
    parser.add_argument("--dir", help="where the data goes (default: the temporary folder)")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    options = arguments(words)
    with scratch_folder(options.dir) as name:
        folder = pathlib.Path(name)
        free_bytes = shutil.disk_usage(folder).free
        if free_bytes < FREE_SHARE_MIN * options.gigabytes * 1e9:
            print(f"only {free_bytes / 1e9:.0f} GB are free", file=sys.stderr)
            return 1
        topics = Topics("filled", options.topics, options.partitions)
        _fill(folder, topics, int(options.gigabytes * 1e9))
        _load_and_kill(_start(folder), topics, options.load_seconds)
        took: dict[bool, list[float]] = {False: [], True: []}
        for turn in range(options.turns):
            is_cold = turn % 2 == 1
            if is_cold:
                drop_from_page_cache(folder / "data")
            node, took_s = _measure(folder, topics, is_cold)
            took[is_cold].append(took_s)
            _load_and_kill(node, topics, options.load_seconds)
    for is_cold, values in took.items():
        if values:
            print(f"page cache {'cold' if is_cold else 'warm'}: median {statistics.median(values):.2f} s to the first "
                  f"acknowledged and fetched record, longest {max(values):.2f} s")  # fmt: skip
    return 0


def drop_from_page_cache(folder: pathlib.Path) -> None:
    """Ask the kernel to forget the content of every file below `folder`; what is dirty is written first."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def _start(folder: pathlib.Path) -> ReadyProcess:
    log = folder / "node.log"
    log.unlink(missing_ok=True)
    command = [*hutong_command(folder / "data"), "--log-level", "debug", "--set", "log.retention_ms=-1"]
    return ReadyProcess(command, log_path=str(log)).start()


def _fill(folder: pathlib.Path, topics: Topics, goal_bytes: int) -> None:
    node = _start(folder)
    try:
        topics.create(node.fields["kafka"])
        records = goal_bytes // FILL_VALUE_BYTES
        with Load("produce", node.fields["kafka"], topics, value_bytes=FILL_VALUE_BYTES, records=records) as load:
            told = load.wait()
        held = sum(path.stat().st_size for path in (folder / "data").rglob("*") if path.is_file())
        print(f"filled with {held / 1e9:.1f} GB in {told['seconds']:.0f} s; {topics.topics} topics with "
              f"{topics.partitions} partitions", flush=True)  # fmt: skip
    finally:
        node.terminate()


def _load_and_kill(node: ReadyProcess, topics: Topics, seconds: float) -> None:
    with Load("produce", node.fields["kafka"], topics, value_bytes=SMALL_VALUE_BYTES) as load:
        time.sleep(seconds)
        node.kill()
        load.kill()


def _measure(folder: pathlib.Path, topics: Topics, is_cold: bool) -> tuple[ReadyProcess, float]:
    """One start; the node and the seconds until it had taken one record and given another."""
    node = _start(folder)
    topic = topics.names()[0]
    with RawConnection(node.fields["kafka"]) as connection:
        end_offset = first_acknowledged(connection, topic, b"first")
        acknowledged_s = time.monotonic() - node.started_at_s
        layout = FetchLayout.of(topic)
        reply = connection.call(fetch_request(topic, end_offset // 2))
        fetched_s = time.monotonic() - node.started_at_s
    if layout.error_code(reply) or not layout.records(reply):
        raise BrokerError(f"nothing at offset {end_offset // 2} of {topic}: error {layout.error_code(reply)}")
    scanned = sum(map(int, _REPORT.findall((folder / "node.log").read_bytes())))
    print(
        f"{'cold' if is_cold else 'warm'}: ready {node.ready_at_s - node.started_at_s:.2f} s, first acknowledged "
        f"{acknowledged_s:.2f} s, first fetched {fetched_s:.2f} s, scanned {scanned / 1e6:.0f} MB",
        flush=True,
    )
    return node, fetched_s
