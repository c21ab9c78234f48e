"""Hutong with TLS next to Kafka with TLS, and each next to itself without: throughput, latency, new connections.

Strategy: each broker runs once, with a plain listener, by which topics are made, and one with TLS 1.3 and the same
certificate. All four doors are measured in alternating turns of one run by the same clients; ratios compare the two
with TLS. A new connection is TCP, handshake and one answered request; no session is resumed, as by most clients.
"""

import argparse
import pathlib
import ssl
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final

from bench.certificates import Certificates, make_certificates
from bench.compare import Figure, Measurement, Results, print_tables, run
from bench.figures import WeightedSamples, cpu_seconds
from bench.kafka_bytes import api_versions_request
from bench.latency import P50, P99, variants
from bench.latency import measure as measure_latency
from bench.load import SHAPES
from bench.machine_state import QUIET
from bench.raw_client import RawConnection, host_and_port
from bench.targets import (
    DEFAULT_KAFKA_SCRIPT,
    Target,
    TlsDoor,
    free_port,
    scratch_folder,
    start_hutong,
    start_kafka,
)
from bench.throughput import Bulk
from bench.throughput import measure as measure_throughput

CONNECTED: Final = Figure("rate, one after the other", "connections/s", True, 0)
BROKER_CPU: Final = Figure("broker CPU", "ms per connection", False, 3)
WARM_UP_CONNECTIONS: Final = 50
CONNECTIONS_MAX: Final = 2_000  # of one turn: each leaves a port waiting


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench tls", description=__doc__)
    parser.add_argument("--turns", type=int, default=3, help="turns of each after the warm-up (default %(default)s)")
    parser.add_argument("--records", type=int, default=1_000_000, help="of a bulk turn (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a latency turn (default %(default)s)")
    parser.add_argument("--kafka-peer", type=pathlib.Path, default=DEFAULT_KAFKA_SCRIPT, metavar="SCRIPT")
    parser.add_argument("--no-kafka", action="store_true", help="Hutong alone")
    parser.add_argument("--quick", action="store_true", help="one short turn of everything, to see that it works")
    parser.add_argument("--only", metavar="WORDS", default="", help="only measurements whose name contains WORDS")
    options = parser.parse_args(words)
    if options.quick:
        options.turns, options.records, options.seconds = 1, 100_000, 0.5
    return options


def hutong(folder: pathlib.Path, files: Certificates) -> Target:
    listeners = [f"{name}://127.0.0.1:{free_port()}" for name in ("PLAINTEXT", "SSL")]
    settings = [f"kafka.listeners={' '.join(listeners)}", f"tls.certificate={files.server.both}"]
    target = start_hutong(folder, settings=settings)
    return _with_door(target, listeners[1], files)


def kafka(script: pathlib.Path, folder: pathlib.Path, files: Certificates) -> Target:
    ports = {name: free_port() for name in ("PLAINTEXT", "SSL", "CONTROLLER")}
    listeners = {name: f"{name}://127.0.0.1:{port}" for name, port in ports.items()}
    settings = {
        "listeners": ",".join(listeners.values()),
        "advertised.listeners": f"{listeners['PLAINTEXT']},{listeners['SSL']}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"1@127.0.0.1:{ports['CONTROLLER']}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.server.both),
    }
    target = start_kafka(
        script, folder, port=ports["PLAINTEXT"], settings=[f"{name}={value}" for name, value in settings.items()]
    )
    return _with_door(target, listeners["SSL"], files)


def _with_door(target: Target, listener: str, files: Certificates) -> Target:
    address = f"localhost:{listener.rpartition(':')[2]}"
    target.tls = TlsDoor(address, files.authority)
    return target


def connections(seconds: float, target: Target, _turn: int) -> dict[Figure, float]:
    """One client that connects anew for each request."""
    context = target.tls_context()
    for _ in range(WARM_UP_CONNECTIONS):
        _one_connection(target.address, context)
    samples, count = WeightedSamples(), 0
    cpu_begun, begun = cpu_seconds(target.pid or 0), time.perf_counter()
    while count < CONNECTIONS_MAX and time.perf_counter() < begun + seconds:
        samples.add(_one_connection(target.address, context), 1)
        count += 1
    elapsed = time.perf_counter() - begun
    cpu = cpu_seconds(target.pid or 0) - cpu_begun
    p50, p99 = samples.percentiles(0.50, 0.99)
    figures = {CONNECTED: count / elapsed, P50: p50 * 1e3, P99: p99 * 1e3}
    return {**figures, BROKER_CPU: cpu * 1e3 / count}


def _one_connection(address: str, context: ssl.SSLContext | None) -> float:
    begun = time.perf_counter()
    with RawConnection(address) as connection:
        if context:
            connection.socket = context.wrap_socket(connection.socket, server_hostname=host_and_port(address)[0])
        connection.call(api_versions_request())
        return time.perf_counter() - begun


def measurements(options: argparse.Namespace, targets: Sequence[Target]) -> list[Measurement]:
    bulks = [Bulk(100, "1", options.records), Bulk(1024, "1", max(options.records // 5, 1))]
    found = [Measurement(bulk.name, partial(measure_throughput, bulk), targets, options.turns) for bulk in bulks]
    found += [
        Measurement(
            f"one-record produce, {shape.name}",
            partial(measure_latency, shape, QUIET, options.seconds),
            variants(targets),
            options.turns,
        )
        for shape in SHAPES
    ]
    found.append(Measurement("new connections", partial(connections, options.seconds), targets, options.turns))
    return [measurement for measurement in found if options.only in measurement.name]


def main(words: Sequence[str] | None = None) -> int:
    options = arguments(words)
    with ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(scratch_folder(None)))
        files = make_certificates(folder)
        brokers = [hutong(folder, files)]
        stack.callback(brokers[0].stop)
        if not options.no_kafka and options.kafka_peer.exists():
            brokers.append(kafka(options.kafka_peer, folder, files))
            stack.callback(brokers[1].stop)
        targets = [door for broker in brokers for door in (broker.plain(), broker.behind_tls())]
        base = targets[-1].name
        names = [target.name for target in variants(targets)]
        results = Results(base, frozenset(target.name for target in variants(targets) if not target.tls))
        run(measurements(options, targets), results, lambda line: print(line, file=sys.stderr, flush=True))
    print_tables(results, names)
    return 0
