"""An archive whose writer is killed again and again, at the steps that matter: each record is there once."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.waiting import until

from hutong.foundation.clock import SystemClock
from hutong.pipelines.archive.folder import LOG, STAGING
from hutong.pipelines.jobs.archive import open_archive
from hutong.pipelines.jobs.compaction import compact

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KILLS = int(os.environ.get("TEST_ARCHIVE_KILLS", "0"))
SEED = int(os.environ.get("TEST_SEED", "0")) or random.randrange(2**32)
RECORDS = 20_000
DEADLINE_S = 300.0
POLL_S = 0.002
VICTIM = [sys.executable, "-m", "tests.spark.archive_victim"]


def listed(folder: Path, pattern: str) -> frozenset[Path]:
    try:
        return frozenset(folder.glob(pattern))
    except FileNotFoundError:  # a folder went away while it was listed
        return frozenset()


def wait_for_another(folder: Path, step: str, victim: "subprocess.Popen[bytes]") -> None:
    """Until a file of this pattern came, or the process is at its end."""
    before = listed(folder, step)

    def came() -> bool:
        return victim.poll() is not None or bool(listed(folder, step) - before)

    until(came, deadline_s=DEADLINE_S, what=f"another {step} (seed {SEED})", between_s=POLL_S)


@pytest.mark.skipif(not KILLS, reason="starts Spark for each kill: set TEST_ARCHIVE_KILLS=5")
def test_each_record_is_archived_once_however_often_the_writer_is_killed(
    spark: "SparkSession", bootstrap: str, topic: str, fill: Callable[..., None], tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    fill(b"%d" % number for number in range(RECORDS))
    folder = tmp_path / "archive"
    steps = (f"{LOG}/*.compact", f"{STAGING}/*/_temporary", f"{STAGING}/*/_SUCCESS", "date=*/*.parquet", f"{LOG}/.*")
    killed = 0
    for _ in range(KILLS):
        victim = subprocess.Popen([*VICTIM, bootstrap, topic, str(tmp_path)], start_new_session=True)
        step, times = chance.choice(steps), chance.randrange(1, 6)
        for _ in range(times):
            wait_for_another(folder, step, victim)
        killed += victim.poll() is None
        os.killpg(victim.pid, signal.SIGKILL)
        victim.wait()
    subprocess.run([*VICTIM, bootstrap, topic, str(tmp_path)], check=True, timeout=DEADLINE_S)
    assert killed, f"the writer was always faster (seed {SEED})"
    rows = spark.read.parquet(str(folder))
    assert rows.count() == RECORDS, f"seed {SEED}"
    assert rows.select("partition", "offset").distinct().count() == RECORDS, f"seed {SEED}"
    archive = open_archive(str(folder))
    compact(spark, archive, SystemClock(), grace_ms=-1)
    paths = {path.relative_to(folder).as_posix() for path in folder.glob("date=*/*.parquet")}
    assert paths == {file.path for file in archive.latest().snapshot.files}, f"leftovers stay (seed {SEED})"
    print(f"{killed} kills, seed {SEED}")
