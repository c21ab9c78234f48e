"""Hutong next to other Kafka brokers: throughput, latency, end-to-end latency, start-up, memory.

Starts Hutong, and Apache Kafka when a start script is at hand; other brokers join by address. The same clients run
against all of them in alternating turns. Prints medians and how many times better they are than the baseline's.
"""

import argparse
import json
import os
import pathlib
import platform
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from bench import (
    backlog,
    bombs,
    bridges,
    bus,
    bus_cluster,
    console,
    coordinators,
    delays,
    e2e,
    failover,
    fairness,
    first_page,
    handlers,
    http_gateway,
    java_tools,
    latency,
    meet,
    pagerank,
    partitions,
    peers,
    picture,
    recovery,
    regions,
    registry,
    remoting,
    replicated,
    rocketmq,
    rocketmq_failover,
    rocketmq_path,
    rpc,
    simulation,
    soak,
    spark,
    stalls,
    startup,
    storm,
    throughput,
    tls,
)
from bench.compare import Measurement, Results, print_tables, run
from bench.targets import (
    DEFAULT_KAFKA_SCRIPT,
    Target,
    peer,
    scratch_folder,
    start_ceiling,
    start_hutong,
    start_kafka,
)

SUITES = ("throughput", "latency", "e2e", "startup")
SUITES_BY_NAME = ("backlog", "java")  # run only when asked for: they need gigabytes, or Java
PROGRAMS = {
    "bombs": bombs.main,
    "bus-cluster": bus_cluster.main,
    "bridges": bridges.main,
    "bus": bus.main,
    "console": console.main,
    "coordinators": coordinators.main,
    "delays": delays.main,
    "failover": failover.main,
    "fairness": fairness.main,
    "first-page": first_page.main,
    "handlers": handlers.main,
    "http": http_gateway.main,
    "meet": meet.main,
    "pagerank": pagerank.main,
    "partitions": partitions.main,
    "peers": peers.main,
    "picture": picture.main,
    "recovery": recovery.main,
    "regions": regions.main,
    "registry": registry.main,
    "replicated": replicated.main,
    "remoting": remoting.main,
    "rocketmq": rocketmq.main,
    "rocketmq-failover": rocketmq_failover.main,
    "rocketmq-path": rocketmq_path.main,
    "rpc": rpc.main,
    "simulation": simulation.main,
    "soak": soak.main,
    "spark": spark.main,
    "stalls": stalls.main,
    "storm": storm.main,
    "tls": tls.main,
}
"""Programs with words of their own.

`bus`, `bus-cluster`, `failover`, `handlers`, `meet`, `rocketmq`, `rpc`, `spark` and `tls` compare with others, the
rest do not.
"""


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench", description=__doc__)
    parser.add_argument(
        "suites",
        nargs="*",
        metavar="SUITE",
        help=f"of {', '.join(SUITES)} (default: these), {', '.join(SUITES_BY_NAME)}",
    )
    parser.add_argument(
        "--peer", action="append", default=[], metavar="NAME=HOST:PORT", help="a Kafka that runs already"
    )
    parser.add_argument("--hutong", metavar="HOST:PORT", help="measure this node instead of starting one")
    parser.add_argument("--no-hutong", action="store_true", help="measure only the others")
    parser.add_argument(
        "--kafka-peer", type=pathlib.Path, default=DEFAULT_KAFKA_SCRIPT, metavar="SCRIPT",
        help="starts Apache Kafka: `SCRIPT start --port N --dir DIR` prints `ready HOST:PORT pid=N`; skipped if absent",
    )  # fmt: skip
    parser.add_argument("--no-kafka", action="store_true", help="do not start Apache Kafka")
    parser.add_argument("--kafka-fsync", action="store_true", help="also a Kafka that flushes every append")
    parser.add_argument("--baseline", metavar="NAME", help="what ratios refer to; default: kafka, or the first peer")
    parser.add_argument(
        "--turns", type=int, default=3, help="turns of each target after the warm-up (default %(default)s)"
    )
    parser.add_argument("--records", type=int, default=1_000_000, help="records of a bulk turn (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a latency turn (default %(default)s)")
    parser.add_argument(
        "--backlog-gb", type=float, default=5.0, metavar="N", help="gigabytes of the backlog (default %(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help="one short turn of everything, to see that it works")
    parser.add_argument("--only", metavar="WORDS", help="only measurements whose name contains WORDS")
    parser.add_argument("--dir", metavar="DIR", help="where brokers keep their data (default: the temporary folder)")
    parser.add_argument(
        "--json", metavar="FILE", help="also write everything as JSON; - is standard output, without tables"
    )
    options = parser.parse_args(words)
    unknown = set(options.suites) - {*SUITES, *SUITES_BY_NAME}
    if unknown:
        parser.error(f"unknown suite: {', '.join(sorted(unknown))}")
    if options.quick:
        options.turns, options.records, options.seconds = 1, 100_000, 1.0
    return options


def started_targets(options: argparse.Namespace, folder: pathlib.Path, stack: ExitStack) -> list[Target]:
    """Every target of this run, each stopped when `stack` closes."""
    targets = []

    def add(target: Target) -> None:
        stack.callback(target.stop)
        targets.append(target)

    if options.hutong:
        add(Target("hutong", options.hutong, is_hutong=True))
    elif not options.no_hutong:
        add(start_hutong(folder))
    if not options.no_kafka and options.kafka_peer.exists():
        add(start_kafka(options.kafka_peer, folder))
        if options.kafka_fsync:
            add(start_kafka(options.kafka_peer, folder, fsync=True))
    for text in options.peer:
        add(peer(text))
    add(start_ceiling(folder))
    return targets


def chosen(options: argparse.Namespace, targets: Sequence[Target], folder: pathlib.Path) -> list[Measurement]:
    suites = options.suites or SUITES
    measurements: list[Measurement] = []
    variants = latency.variants(targets)
    if "startup" in suites:
        script = None if options.no_kafka else options.kafka_peer
        measurements += startup.measurements(
            targets, folder=folder, kafka_script=script, turns=options.turns, idle_s=max(10.0, options.seconds)
        )
    if "throughput" in suites:
        measurements += throughput.measurements(targets, records=options.records, turns=options.turns)
    if "latency" in suites:
        measurements += latency.measurements(variants, seconds=options.seconds, turns=options.turns)
    if "e2e" in suites:
        measurements += e2e.measurements(variants, records=int(options.seconds * 1000), turns=options.turns)
    if "backlog" in suites:
        measurements += backlog.measurements(
            targets, gigabytes=options.backlog_gb, seconds=options.seconds, turns=options.turns
        )
    if "java" in suites:
        measurements += java_tools.measurements(
            targets, script=options.kafka_peer, records=options.records, turns=options.turns
        )
    if "throughput" in suites:
        measurements.append(throughput.memory_measurement(targets))
    return [measurement for measurement in measurements if (options.only or "") in measurement.name]


def baseline(options: argparse.Namespace, targets: Sequence[Target]) -> str | None:
    peers = [target.name for target in targets if not target.is_hutong and not target.is_ceiling]
    return options.baseline or next(iter(peers), None)


def main(words: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if words is None else words
    if words and words[0] in PROGRAMS:
        return PROGRAMS[words[0]](words[1:])
    options = arguments(words)
    with ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(scratch_folder(options.dir)))
        targets = started_targets(options, folder, stack)
        results = Results(baseline(options, targets), frozenset(target.name for target in targets if target.is_ceiling))
        run(chosen(options, targets, folder), results, lambda line: print(line, file=sys.stderr, flush=True))
    if options.json:
        machine = {"cpus": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()}
        text = json.dumps({"machine": machine, "baseline": results.baseline, "rows": results.rows()}, indent=1)
        if options.json == "-":
            print(text)
        else:
            pathlib.Path(options.json).write_text(text + "\n")
    if options.json != "-":
        print_tables(results, [target.name for target in latency.variants(targets)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
