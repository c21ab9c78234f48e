"""Idle connections and storms of them: `python -m bench storm [--tls]`.

Strategy: a node of its own, and clients in processes of their own (`bench.storm_clients`). First many connections that
send one request and stay: the cost of each is the growth of the node's resident size, and the rest after they leave is
printed. Then a few steady clients, alone for a while, and again while connections come at a rate, half of them hostile:
garbage, lengths of gigabytes, frames that never end, questions whose answers nobody reads, resets. What counts is the
99th percentile of the steady clients in both, and the node's memory afterwards next to that before. Bounded in time and
number, on the loopback alone.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import trustme

from bench.figures import cpu_seconds, memory
from bench.processes import ReadyProcess
from bench.targets import hutong_command, scratch_folder

KIBIBYTE: Final = 1024
IDLE_BYTES_TARGET: Final = 8 * KIBIBYTE
P99_RATIO_TARGET: Final = 3.0
SETTLE_S: Final = 3.0  # for sockets to close and the collector to look
LIMITS: Final = {"network.max_connections": 20_000, "network.max_connections_per_ip": 20_000}


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench storm", description=__doc__)
    parser.add_argument("--connections", type=int, default=10_000, help="that stay (default %(default)s)")
    parser.add_argument("--rate", type=int, default=2_000, help="connections a second of a storm (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=8.0, help="length of each part (default %(default)s)")
    parser.add_argument("--tls", action="store_true", help="also connections that stay over TLS")
    parser.add_argument("--only", choices=("idle", "storm"), help="one of both parts")
    parser.add_argument("--json", action="store_true", help="figures as JSON instead of sentences")
    parser.add_argument("--dir", help="where the node's data goes (default: the temporary folder)")
    return parser.parse_args(words)


@dataclass(frozen=True, slots=True)
class Idle:
    """The bytes of one idle connection; negative if the node had the memory already."""

    connections: int
    bytes_each: float
    bytes_left: float


@dataclass(frozen=True, slots=True)
class Stormed:
    """Waits of the steady clients in milliseconds, alone and in the storm; the storm's counts; the node's MB."""

    quiet_p50_ms: float
    quiet_p99_ms: float
    storm_p50_ms: float
    storm_p99_ms: float
    cpu_us_each: float  # of the node's, for each connection of the storm, less what the steady clients cost alone
    counts: dict[str, int]
    before_mb: float
    peak_mb: float
    after_mb: float


def main(words: Sequence[str]) -> int:
    options = arguments(words)
    found: dict[str, Idle | Stormed] = {}
    with scratch_folder(options.dir) as name:
        folder = pathlib.Path(name)
        if options.only != "storm":
            found["idle"] = idle(folder / "idle", options.connections)
            if options.tls:
                found["idle over TLS"] = idle(folder / "tls", options.connections, authority(folder))
        if options.only != "idle":
            found["storm"] = storm(folder / "storm", options.rate, options.seconds)
    if options.json:
        print(json.dumps({name: {key: getattr(each, key) for key in each.__slots__} for name, each in found.items()}))
        return 0
    for name, each in found.items():
        print(f"{name}: {told_idle(each) if isinstance(each, Idle) else told_storm(each)}")
    return 0


def authority(folder: pathlib.Path) -> pathlib.Path:
    """A CA made for this run, and next to it `server.pem`: key and certificate for `localhost`."""
    root = trustme.CA()
    root.cert_pem.write_to_path(folder / "ca.pem")
    root.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(folder / "server.pem")
    return folder / "ca.pem"


def node(folder: pathlib.Path, stack: ExitStack, ca: pathlib.Path | None = None) -> tuple[str, int]:
    """A running node: its address and its process."""
    folder.mkdir()
    settings = [f"{name}={value}" for name, value in LIMITS.items()]
    if ca is not None:
        settings += ["kafka.protocol=SSL", f"tls.certificate={ca.with_name('server.pem')}"]
    command = hutong_command(folder / "data") + [word for each in settings for word in ("--set", each)]
    process = stack.enter_context(ReadyProcess(command, log_path=str(folder / "node.log")).start())
    return process.fields["kafka"], int(process.fields["pid"])


def clients(stack: ExitStack, *words: str) -> "subprocess.Popen[str]":
    """One process of them, once it is ready."""
    command = [sys.executable, "-m", "bench.storm_clients", *words]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    stack.callback(process.wait)
    stack.callback(process.kill)
    assert process.stdout
    if process.stdout.readline().strip() != "ready":
        raise RuntimeError(f"the clients did not start: {' '.join(words)}")
    return process


def idle(folder: pathlib.Path, count: int, ca: pathlib.Path | None = None) -> Idle:
    with ExitStack() as stack:
        address, pid = node(folder, stack, ca)
        last = [str(ca)] if ca is not None else []
        warm = clients(stack, "idle", address, "100", *last)
        before = memory(pid).rss_mb
        held = clients(stack, "idle", address, str(count), *last)
        with_them = memory(pid).rss_mb
        for each in (warm, held):
            each.communicate()
        time.sleep(SETTLE_S)
        after = memory(pid).rss_mb
    return Idle(count, (with_them - before) * 1e6 / count, (after - before) * 1e6)


def storm(folder: pathlib.Path, rate: int, seconds: float) -> Stormed:
    with ExitStack() as stack:
        address, pid = node(folder, stack)
        length = str(seconds)
        begun_cpu_s = cpu_seconds(pid)
        quiet = waits(clients(stack, "steady", address, length))
        before, quiet_cpu_s = memory(pid).rss_mb, cpu_seconds(pid)
        steady = clients(stack, "steady", address, length)
        storming = clients(stack, "storm", address, length, str(rate))
        stormy = waits(steady)
        counts = json.loads(storming.communicate()[0])
        peak, cpu_s = memory(pid).peak_rss_mb, cpu_seconds(pid) - 2 * quiet_cpu_s + begun_cpu_s
        time.sleep(SETTLE_S)
        after = memory(pid).rss_mb
    cpu_us_each = cpu_s * 1e6 / counts["begun"]
    return Stormed(p50(quiet), p99(quiet), p50(stormy), p99(stormy), cpu_us_each, counts, before, peak, after)


def waits(steady: "subprocess.Popen[str]") -> list[float]:
    found: list[float] = json.loads(steady.communicate()[0])
    return found


def p50(samples: Sequence[float]) -> float:
    return statistics.median(samples)


def p99(samples: Sequence[float]) -> float:
    return statistics.quantiles(samples, n=100)[98]


def told_idle(found: Idle) -> str:
    verdict = "within" if found.bytes_each < IDLE_BYTES_TARGET else "above"
    return (
        f"{found.connections} connections, {found.bytes_each / KIBIBYTE:.1f} KiB each ({verdict} the target of "
        f"{IDLE_BYTES_TARGET // KIBIBYTE}); {found.bytes_left / 1e6:+.1f} MB once they went"
    )


def told_storm(found: Stormed) -> str:
    ratio = found.storm_p99_ms / found.quiet_p99_ms
    verdict = "within" if ratio <= P99_RATIO_TARGET else "above"
    return (
        f"steady clients p50 {found.quiet_p50_ms:.2f} ms, p99 {found.quiet_p99_ms:.2f} ms; in the storm "
        f"p50 {found.storm_p50_ms:.2f} ms, p99 {found.storm_p99_ms:.2f} ms: {ratio:.1f} times ({verdict} the target of "
        f"{P99_RATIO_TARGET:.0f}). {found.cpu_us_each:.0f} us of the node's time for each connection. {found.counts}. "
        f"Resident {found.before_mb:.1f} MB before, {found.peak_mb:.1f} MB at most, {found.after_mb:.1f} MB after"
    )
