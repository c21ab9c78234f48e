"""Spark sessions as our commands use them: a Java is found, nothing is logged unless asked for, and all of it ends.

A master on this machine is reached by the loopback interface alone. Settings of the user come last and win. A session
of Spark Connect (`sc://`) needs no Java here, and has no SparkContext.
"""

import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from hutong.foundation.errors import ExitCode, UsageError
from hutong.pipelines.engine.failure_reports import ERRORS, QUIET
from hutong.pipelines.engine.failures import first_cause
from hutong.pipelines.engine.interrupts import undisturbed
from hutong.pipelines.engine.java import find_java, write_wrapper
from hutong.pipelines.engine.masters import check_answers, is_connect, is_local, is_on_this_machine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MISSING_EXTRA = "pipelines need Spark: install hutong[spark]"
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
LOG_LEVEL_DEFAULT = "off"
QUICK_JAVA = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
LOOPBACK = "127.0.0.1"
MISSING_CONNECT = "--master sc://... needs the client of Spark Connect: install pyspark[connect]"
CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"
PYTHON_SETTING = "spark.pyspark.python"
JAVA_ENDED = "JAVA_GATEWAY_EXITED"  # PySpark's name for a Java process that ended without a word
SECRETS = r"(?i)secret|password|token|access[.]?key|jaas|keystore[.]key"
"""Names and values of settings that Spark's pages and event logs hide: its own rule, and what Kafka's clients add."""


@contextmanager
def spark_session(
    name: str,
    master: str = "local[*]",
    settings: Mapping[str, str] | None = None,
    log_level: str = LOG_LEVEL_DEFAULT,
    *,
    quick: bool = False,
) -> Iterator["SparkSession"]:
    """A session that is stopped at the end. Raises UsageError when Spark or Java is missing or it does not start.

    `quick` is for little data: Java compiles fast instead of well, which halves what a job of seconds costs.
    """
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise UsageError(MISSING_EXTRA, ExitCode.UNAVAILABLE) from error
    logging.getLogger("SQLQueryContextLogger").disabled = True  # prints errors as JSON in addition to raising them
    check_answers(master)
    given = settings or {}
    builder = SparkSession.builder.appName(name)
    for key, value in {**_settings(master, log_level, quick), **given}.items():
        builder = builder.config(key, value)
    around = _connect_mode() if is_connect(master) else nullcontext()
    with around:
        try:
            with _environment(master, given), undisturbed():
                session = builder.getOrCreate()
        except ImportError as error:  # PySparkImportError, of what Connect needs, is one too
            raise UsageError(f"{MISSING_CONNECT} ({first_cause(error)})", ExitCode.UNAVAILABLE) from error
        except (PySparkException, import_module("py4j.protocol").Py4JError) as error:
            if isinstance(error, PySparkException) and error.getCondition() == JAVA_ENDED:
                raise _java_ended() from error
            raise UsageError(
                f"Spark did not start with --master {master}: {first_cause(error)}", ExitCode.UNAVAILABLE
            ) from error
        try:
            yield session
        finally:
            session.stop()


def _java_ended() -> UsageError:
    """The error of a Java that tells its version and does not start Spark: another try would end the same."""
    java = find_java(os.environ)
    return UsageError(
        f"Spark's Java, {java}, ended before it served: try `{java} -version`, or set JAVA_HOME to another",
        ExitCode.CONFIG,
    )


def _settings(master: str, log_level: str, quick: bool) -> dict[str, str]:
    if is_connect(master):  # what else there is to set was set when the server started
        return {"spark.remote": master, "spark.sql.session.timeZone": "UTC"}
    java = [f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}", f"-Dhutong.spark.log.level={log_level}"]
    settings = {
        "spark.master": master,
        "spark.ui.port": "0",  # any free one
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.redaction.regex": SECRETS,
        "spark.driver.extraJavaOptions": " ".join(java + QUICK_JAVA if quick else java),
    }
    if is_on_this_machine(master):
        settings |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    if is_local(master):
        settings |= {
            "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),  # the default of 200 costs seconds per shuffle
        }
    return settings


@contextmanager
def _environment(master: str, given: Mapping[str, str]) -> Iterator[None]:
    """Set the variables that Spark reads from the environment alone, while it starts; its Java process keeps them."""
    if is_connect(master):
        yield
        return
    python = given.get(PYTHON_SETTING, sys.executable)
    prepared = {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": sys.executable, ERRORS: QUIET} | os.environ
    if PYTHON_SETTING in given:  # PySpark itself looks at the environment alone
        prepared["PYSPARK_PYTHON"] = python
    if is_on_this_machine(master):
        prepared.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    with tempfile.TemporaryDirectory(prefix="hutong-java-") as folder:
        prepared["JAVA_HOME"] = str(write_wrapper(find_java(os.environ), Path(folder)))
        before = dict(os.environ)
        os.environ.update(prepared)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


@contextmanager
def _connect_mode() -> Iterator[None]:
    """PySpark notes in the environment that its functions are those of Connect; afterwards they are its own again."""
    before = os.environ.get(CONNECT_MODE)
    try:
        yield
    finally:
        os.environ.pop(CONNECT_MODE, None)
        if before is not None:
            os.environ[CONNECT_MODE] = before
