"""The demo from start to end: real events into a node, jobs on Spark over them, every answer checked.

Strategy: one straight line of steps over a `Findings` value. This machine is sampled live while the other steps run, so
that its metrics show the demo's own load. Nothing is taken on trust: records are compared one by one with what was
sent, and each job's answer with a plain computation of the same.

Knows nothing of tables or exit codes.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka.admin import NewTopic

from hutong.cli.kafka import client
from hutong.cli.kafka.produce import file_lines
from hutong.cli.output import progress
from hutong.examples.demo import host_metrics, import_graph, plain, web_log
from hutong.examples.demo.flow import DemoStream, LiveStream, producer, read_back, send_all
from hutong.examples.demo.jobs import DemoJobs, spark_jobs
from hutong.examples.demo.report import Findings, window_rows

IMPORTS, ACCESS_LOG, METRICS = "demo.import-graph", "demo.access-log", "demo.host-metrics"
DEAD_LETTERS = f"{ACCESS_LOG}.dead-letters"
ITERATIONS = 10
WINDOW_MS = 5000
REQUESTS_MAX = 2000

Say = Callable[[str], None]
Edge = tuple[str, str]


class Demo:
    """One run against the node at `findings.bootstrap`. `say` is called with each finished step."""

    def __init__(self, findings: Findings, say: Say) -> None:
        self.findings = findings
        self.edges: list[Edge] = []
        self._bootstrap = findings.bootstrap
        self._producer = producer(findings.bootstrap, linger_ms=5)
        self._say = say
        self._samples: list[tuple[int, str, float]] = []

    def run(self, access_log: Path | None) -> None:
        """All steps; what is off is in `findings.faults`. Raises UsageError when a record is refused."""
        make_topics(self._bootstrap, (IMPORTS, ACCESS_LOG, DEAD_LETTERS, METRICS))
        live = LiveStream(self._bootstrap, METRICS)
        with ExitStack() as running:
            with live.flowing(), host_metrics.sampling(lambda time_ms, samples: self._sample(live, time_ms, samples)):
                graph, log = self._send_imports(), self._send_access_log(access_log)
                with self._timed("start"):
                    jobs = running.enter_context(spark_jobs(self._bootstrap, self.findings.output_dir))
                self._rank(jobs, graph)
                self._count_requests(jobs, log)
            self._say(f"{len(live.stream.values):,} samples of this machine went through live")
            self._window(jobs, live.stream)
        self.findings.streams = [graph, log, live.stream]
        self.findings.faults += [fault for stream in self.findings.streams for fault in stream.faults()]

    def _sample(self, live: LiveStream, time_ms: int, samples: Sequence[host_metrics.Sample]) -> None:
        self._samples += [(time_ms, metric, value) for metric, value in samples]
        live.send(
            json.dumps({"time_ms": time_ms, "metric": metric, "value": value}).encode() for metric, value in samples
        )

    def _send_imports(self) -> DemoStream:
        def lines() -> Iterator[bytes]:
            for edge in import_graph.edges(import_graph.standard_library()):
                self.edges.append(edge)
                yield "\t".join(edge).encode()

        return self._send(IMPORTS, lines(), "imports of the standard library")

    def _send_access_log(self, path: Path | None) -> DemoStream:
        if path is not None:
            return self._send(ACCESS_LOG, file_lines(path), f"lines of {path}")
        folder = import_graph.standard_library()
        wanted = [page_of(module, folder) for _, module in self.edges[:REQUESTS_MAX]]
        return self._send(ACCESS_LOG, map(str.encode, web_log.visit(folder, wanted)), "requests to a web server here")

    def _send(self, topic: str, values: Iterable[bytes], what: str) -> DemoStream:
        with progress(what) as advance:
            stream = send_all(self._producer, topic, values, advance)
        read_back(self._bootstrap, stream)
        self._say(f"{len(stream.values):,} {what} were sent to {topic}, acknowledged and read back")
        return stream

    def _rank(self, jobs: DemoJobs, graph: DemoStream) -> None:
        with self._timed("pagerank"):
            graph.processed, ranks = jobs.page_rank(IMPORTS, ITERATIONS)
        self.findings.ranks = list(ranks.items())
        expected = plain.page_rank(self.edges, ITERATIONS)
        if differing := plain.differing(expected, ranks):
            self._fault(
                f"PageRank differs from a plain computation for {len(differing)} modules, first {differing[0]}."
            )
        self._say(f"PageRank of {len(ranks):,} modules on Spark, the same as computed plainly")

    def _count_requests(self, jobs: DemoJobs, log: DemoStream) -> None:
        with self._timed("access-log"):
            hours, paths = jobs.access_log(ACCESS_LOG)
        self.findings.hours, self.findings.paths = hours, paths
        dead = DemoStream(DEAD_LETTERS)
        read_back(self._bootstrap, dead)
        log.processed = sum(row["requests"] for row in hours) + len(dead.received)
        expected, malformed = plain.requests_per_hour(log.values)
        counted = {row["hour_utc"]: (row["requests"], row["bytes"]) for row in hours}
        if counted != expected or len(dead.received) != malformed:
            self._fault("The access-log job differs from a plain computation.")
        self._say(f"{log.processed:,} log lines counted on Spark, {malformed:,} of them set aside as malformed")

    def _window(self, jobs: DemoJobs, samples: DemoStream) -> None:
        with self._timed("windows"):
            windows = jobs.windows(METRICS, WINDOW_MS)
        samples.processed = sum(count for count, _ in windows.values())
        expected = plain.windows(self._samples, WINDOW_MS)
        counts = {key: count for key, (count, _) in windows.items()}
        means = {str(key): mean for key, (_, mean) in windows.items()}
        if counts != {key: count for key, (count, _) in expected.items()} or plain.differing(
            {str(key): mean for key, (_, mean) in expected.items()}, means
        ):
            self._fault("The metrics per window differ from a plain computation.")
        self.findings.windows = window_rows(windows)
        self._say(f"{samples.processed:,} samples gathered on Spark in windows of {WINDOW_MS // 1000} s")

    def _fault(self, sentence: str) -> None:
        self.findings.faults.append(sentence)

    @contextmanager
    def _timed(self, job: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.findings.spark_seconds[job] = time.perf_counter() - started


def page_of(module: str, folder: Path) -> str:
    """The path of a module's source on a web server for `folder`; built-in modules have none."""
    path = module.replace(".", "/")
    return f"/{path}/__init__.py" if (folder / path / "__init__.py").exists() else f"/{path}.py"


def make_topics(bootstrap: str, names: Sequence[str]) -> None:
    """Create the demo's topics, empty: what an earlier run left under these names is deleted first."""
    admin = client.admin(bootstrap)
    if old := [name for name in names if name in client.topics(admin)]:
        for name, done in admin.delete_topics(old).items():
            client.result(done, f"topic {name}")
    for name, done in admin.create_topics([NewTopic(name, 1, 1) for name in names]).items():
        client.result(done, f"topic {name}")
