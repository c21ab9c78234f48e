"""The data source `hutong` next to Spark's own JVM connector for Kafka, and what Spark's Python API can do at most.

Strategy: one local session takes all turns, in alternating order after a warm-up, over the same topics, served by
Hutong's node and again by Apache Kafka; medians and ratios are shown. `jvm tuned` fetches and sends more at a time.
`exactly once` is our sink in transactions. `ceiling` is a Python source that hands over prebuilt Arrow batches, and a
writer that only counts. Jobs over a topic of one row show what each source costs before its first row: it is part of
every other figure. Processor time is that of Spark with its Python workers, per million rows; unlike rows per second it
hardly depends on what else runs.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Final

from rich.console import Console
from rich.table import Table

from bench.compare import Figure, Measurement, Results, print_tables, run
from bench.spark_contenders import CEILING, GOALS, HUTONG, JVM, ONCE, TUNED
from bench.spark_jobs import Contender, Cost, Input, Jobs, local_session
from bench.spark_memory import halves, sampled
from bench.spark_topics import delete_topic, fill, make_topic
from bench.targets import DEFAULT_KAFKA_SCRIPT, Target, peer, scratch_folder, start_hutong, start_kafka

DEFAULT_CONNECTOR: Final = DEFAULT_KAFKA_SCRIPT.parents[1] / "spark-kafka" / "spark-kafka"
SUITES: Final = ("read", "write", "fixed", "plan", "memory")
SMALL_BYTES, LARGE_BYTES = 100, 1000
LARGE_SHARE, WRITTEN_SHARE, LARGE_WRITTEN_SHARE = 0.4, 0.3, 0.06  # of the rows that a small read has
READS: Final = ("read", "count", "group", "stream")
PLAN_PARTITIONS: Final = 1000
GIGABYTE: Final = 10**9

RATE: Final = Figure("rate", "M rows/s", True, 3)
CPU: Final = Figure("processor", "s per M rows", False, 3)
SECONDS: Final = Figure("time", "s", False, 3)
JAVA: Final = tuple(Figure(f"Java's peak, {half} half", "MB", False, 0) for half in ("first", "second"))
WORKERS: Final = tuple(Figure(f"Python's peak, {half} half", "MB", False, 0) for half in ("first", "second"))


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench spark", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)} (default: all)")
    parser.add_argument("--rows", type=int, default=10_000_000,
                        help=f"a read with values of {SMALL_BYTES} B has; with {LARGE_BYTES} B {LARGE_SHARE} of "
                             f"it, writes {WRITTEN_SHARE} and {LARGE_WRITTEN_SHARE} (default %(default)s)")  # fmt: skip
    parser.add_argument("--partitions", type=int, default=4, help="of each topic (default %(default)s)")
    parser.add_argument("--turns", type=int, default=3, help="of each after the warm-up (default %(default)s)")
    parser.add_argument("--only", metavar="WORDS", default="", help="only measurements whose name contains WORDS")
    parser.add_argument("--quick", action="store_true", help="one short turn of everything, to see that it works")
    parser.add_argument("--contenders", metavar="NAMES", help="with commas between; default: all there are")
    parser.add_argument("--connector", type=pathlib.Path, default=DEFAULT_CONNECTOR, metavar="SCRIPT",
                        help="`SCRIPT jars` prints the JVM connector's jars; left out if absent")  # fmt: skip
    parser.add_argument("--kafka-peer", type=pathlib.Path, default=DEFAULT_KAFKA_SCRIPT, metavar="SCRIPT",
                        help="starts Apache Kafka; left out if absent")  # fmt: skip
    parser.add_argument("--no-kafka", action="store_true", help="topics of Hutong's node alone")
    parser.add_argument("--no-hutong", action="store_true", help="topics of Kafka alone")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=HOST:PORT",
                        help="also the topics of a Kafka that runs already")  # fmt: skip
    parser.add_argument("--gigabytes", type=float, default=0.0, metavar="N",
                        help="of a topic that a stream reads under a watch of its memory (default: none)")  # fmt: skip
    parser.add_argument("--ceiling-bytes", type=int, default=2 * 2**20, metavar="N",
                        help="size of the ceiling's Arrow batches (default %(default)s)")  # fmt: skip
    parser.add_argument("--memory", default="1g", help="of Spark's Java machine (default %(default)s)")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="a setting of the session")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="an option of our source and sink"
    )
    parser.add_argument("--dir", metavar="DIR", help="where brokers keep their data (default: the temporary folder)")
    parser.add_argument("--json", metavar="FILE", help="also write every turn as JSON")
    options = parser.parse_args(words)
    if unknown := set(options.suites) - set(SUITES):
        parser.error(f"unknown suite: {', '.join(sorted(unknown))}")
    if options.quick:
        options.turns, options.rows = 1, 200_000
    return options


def main(words: Sequence[str]) -> int:
    options = arguments(words)
    with ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(scratch_folder(options.dir)))
        contenders = _contenders(options)
        jars = _jars(options.connector) if any(one.format == "kafka" for one in contenders) else None
        spark = stack.enter_context(local_session(jars, options.memory, options.conf))
        results = Results(JVM.name, frozenset({CEILING.name}))
        suite = Suite(options, Jobs(spark, folder, options.ceiling_bytes), contenders)
        for broker in _brokers(options, folder):
            with broker as target:
                for measurement in suite.measurements(target):
                    run([measurement], results, _progress)
    print_tables(results, [contender.name for contender in contenders])
    _print_goals(results)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results.rows(), indent=1) + "\n")
    return 0


Told = Callable[[Cost, int], dict[Figure, float]]
"""The figures of a job, by its number of rows."""


class Suite:
    """The measurements of one run. A topic lives as long as the measurements that need it are taken."""

    def __init__(self, options: argparse.Namespace, jobs: Jobs, contenders: Sequence[Contender]) -> None:
        self._options = options
        self._jobs = jobs
        self._contenders = {contender.name: contender for contender in contenders}
        self._sources = [Target(name, "") for name in self._contenders]
        self._readers = [source for source in self._sources if not self._contenders[source.name].only_writes]
        self._suites = options.suites or SUITES

    def measurements(self, broker: Target) -> Iterator[Measurement]:
        rows = self._options.rows
        large = max(1, int(rows * LARGE_SHARE))
        if "read" in self._suites:
            yield from self._reads(broker, rows, SMALL_BYTES)
            yield from self._reads(broker, large, LARGE_BYTES)
        if "write" in self._suites:
            yield from self._writes(broker, max(1, int(rows * WRITTEN_SHARE)), SMALL_BYTES)
            yield from self._writes(broker, max(1, int(rows * LARGE_WRITTEN_SHARE)), LARGE_BYTES)
        if "fixed" in self._suites:
            names = {"read": "a job over one row", "stream": "a stream over one row"}
            yield from self._over_topic(broker, names, Input(broker.bootstrap, "one-row", 1, SMALL_BYTES, 1), _time)
        if "plan" in self._suites:
            topic = Input(broker.bootstrap, "wide", PLAN_PARTITIONS, SMALL_BYTES, PLAN_PARTITIONS)
            names = {"plan": f"planning {PLAN_PARTITIONS} partitions"}
            yield from self._over_topic(broker, names, topic, _time, leave_out=CEILING.name)

        gigabytes = self._options.gigabytes
        if "memory" in self._suites and gigabytes and HUTONG.name in self._contenders:
            rows = max(1, int(gigabytes * GIGABYTE / LARGE_BYTES))
            topic = Input(broker.bootstrap, "large", rows, LARGE_BYTES, self._options.partitions)
            yield from self._memory(broker, f"memory of a stream over {gigabytes:g} GB", topic)

    def _memory(self, broker: Target, what: str, topic: Input) -> Iterator[Measurement]:
        name = self._name(broker, what)
        if self._options.only in name:
            _progress(f"{broker.name}: {topic.rows} rows of {topic.size} B into {topic.partitions} partitions")
            fill(topic.bootstrap, topic.topic, topic.rows, topic.size, topic.partitions)
            ours = [source for source in self._sources if source.name == HUTONG.name]
            yield Measurement(name, partial(self._watched, topic), ours, turns=1, warm_up=False)
            delete_topic(topic.bootstrap, topic.topic)

    def _watched(self, topic: Input, source: Target, turn: int) -> dict[Figure, float]:
        with sampled() as samples:
            figures = self._turn("stream", topic, _rate, source, turn)
        for kind, taken in ((JAVA, samples.java), (WORKERS, samples.workers)):
            figures |= dict(zip(kind, halves(taken), strict=True))
        return figures

    def _reads(self, broker: Target, rows: int, size: int) -> Iterator[Measurement]:
        topic = Input(broker.bootstrap, f"rows-{size}", rows, size, self._options.partitions)
        yield from self._over_topic(broker, {job: f"{job} {size} B" for job in READS}, topic, _rate)

    def _over_topic(
        self,
        broker: Target,
        names: Mapping[str, str],
        topic: Input,
        figures: Told,
        leave_out: str = "",
    ) -> Iterator[Measurement]:
        """Measurements by the name of their job; the topic is filled only when one of them is wanted."""
        wanted = {job: self._name(broker, name) for job, name in names.items()}
        wanted = {job: name for job, name in wanted.items() if self._options.only in name}
        if not wanted:
            return
        _progress(f"{broker.name}: {topic.rows} rows of {topic.size} B into {topic.partitions} partitions")
        fill(topic.bootstrap, topic.topic, topic.rows, topic.size, topic.partitions)
        sources = [source for source in self._readers if source.name != leave_out]
        for job, name in wanted.items():
            yield Measurement(name, partial(self._turn, job, topic, figures), sources, self._options.turns)
        delete_topic(topic.bootstrap, topic.topic)

    def _writes(self, broker: Target, rows: int, size: int) -> Iterator[Measurement]:
        name = self._name(broker, f"write {size} B")
        if self._options.only in name:
            written = partial(self._written, broker, rows, size)
            yield Measurement(name, written, self._sources, self._options.turns)

    def _turn(self, job: str, topic: Input, figures: Told, source: Target, _turn: int) -> dict[Figure, float]:
        work = getattr(self._jobs, job)
        return figures(self._jobs.timed(partial(work, self._contenders[source.name], topic)), topic.rows)

    def _written(self, broker: Target, rows: int, size: int, source: Target, turn: int) -> dict[Figure, float]:
        """Into a fresh topic."""
        topic = f"written-{source.name.replace(' ', '-')}-{size}-{turn}"
        given = Input(broker.bootstrap, topic, rows, size, self._options.partitions)
        make_topic(given.bootstrap, topic, given.partitions)
        figures = self._turn("write", given, _rate, source, turn)
        delete_topic(given.bootstrap, topic)
        return figures

    def _name(self, broker: Target, what: str) -> str:
        return f"{what}, served by {broker.name}"


def _rate(cost: Cost, rows: int) -> dict[Figure, float]:
    millions = rows / 1e6
    return {RATE: millions / cost.seconds, CPU: cost.cpu_seconds / millions}


def _time(cost: Cost, _rows: int) -> dict[Figure, float]:
    return {SECONDS: cost.seconds}


def _contenders(options: argparse.Namespace) -> list[Contender]:
    ours = dict(setting.split("=", 1) for setting in options.set)
    hutong, once = (
        replace(one, options={**one.options, **ours}, write_options={**ours, **one.write_options})
        for one in (HUTONG, ONCE)
    )
    there = [JVM, TUNED, hutong, once, CEILING] if options.connector.exists() else [hutong, once, CEILING]
    wanted = options.contenders.split(",") if options.contenders else [one.name for one in there]
    return [one for one in there if one.name in wanted]


def _jars(script: pathlib.Path) -> str:
    return subprocess.run([script, "jars"], check=True, capture_output=True, text=True).stdout.strip()


def _brokers(options: argparse.Namespace, folder: pathlib.Path) -> Iterator[AbstractContextManager[Target]]:
    """Each lives only while its own topics are read: two would share the processors."""
    if not options.no_hutong:
        yield _running(lambda: start_hutong(folder))
    if not options.no_kafka and options.kafka_peer.exists():
        yield _running(lambda: start_kafka(options.kafka_peer, folder))
    for text in options.peer:
        yield _running(partial(peer, text))


@contextmanager
def _running(start: Callable[[], Target]) -> Iterator[Target]:
    target = start()
    try:
        yield target
    finally:
        target.stop()


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _print_goals(results: Results) -> None:
    """Our speed relative to each of the others, with the goals."""
    table = Table(title="hutong is so many times as fast as", title_justify="left", title_style="bold")
    others = [JVM.name, TUNED.name, ONCE.name, CEILING.name]
    for heading in ("", *others):
        table.add_column(heading, justify="right" if heading else "left")
    for (measurement, figure), by_target in results.values.items():
        if figure not in (RATE, SECONDS) or HUTONG.name not in by_target:
            continue
        medians = {name: statistics.median(values) for name, values in by_target.items()}
        table.add_row(measurement, *(_share(measurement, figure, medians, other) for other in others))
    Console(width=None if Console().is_terminal else 160).print(table)


def _share(measurement: str, figure: Figure, medians: Mapping[str, float], other: str) -> str:
    if other not in medians:
        return "-"
    ours, theirs = medians[HUTONG.name], medians[other]
    ratio = ours / theirs if figure.higher_is_better else theirs / ours
    wanted = next((goal for what, whom, goal in GOALS if measurement.startswith(what) and whom == other), None)
    return f"{ratio:.2f}" if wanted is None else f"{ratio:.2f} (wanted: {wanted:g})"
