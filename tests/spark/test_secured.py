"""A secured cluster through Spark: what lets a query in shows nowhere; who stays outside is told in one sentence."""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import pytest
from bench.raw_client import create_topic
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from tests.compat.secured.doors import Secured, started
from tests.compat.secured.rules import SCRAM_512

from hutong.cli.main import run
from hutong.foundation.errors import ExitCode, UsageError
from hutong.pipelines.engine.failures import translate
from hutong.pipelines.runner import check_input

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

PASSWORD: Final = "alice's secret"
PAGES: Final = ("sql?details=true&planDescription=true&length=1000", "environment", "stages?details=true")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with ExitStack() as stack:
        yield started(tmp_path_factory.mktemp("secured"), stack)


def allow_transactions(bootstrap: str, principal: str) -> None:
    """The rights that exactly-once writing needs next to that to the topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    prefixed, allow = ResourcePatternType.PREFIXED, AclPermissionType.ALLOW
    rights = [
        AclBinding(ResourceType[kind], "hutong-", prefixed, principal, "*", AclOperation[operation], allow)
        for kind, operation in (("TRANSACTIONAL_ID", "WRITE"), ("GROUP", "READ"))
    ]
    for created in admin.create_acls(rights).values():
        created.result(30)


@pytest.fixture
def options(secured: Secured) -> dict[str, str]:
    """Alice's."""
    return {f"kafka.{name}": value for name, value in secured.sasl(SCRAM_512).java().items()}


def test_a_query_logs_in_and_shows_no_secret(
    spark: "SparkSession",
    secured: Secured,
    options: dict[str, str],
    tmp_path: "Path",
    capsys: pytest.CaptureFixture[str],
) -> None:
    allow_transactions(secured.addresses["plain"], "User:alice")
    create_topic(secured.addresses["plain"], "work-from", records=0)
    create_topic(secured.addresses["plain"], "work-to", records=0)
    assert PASSWORD in options["kafka.sasl.jaas.config"]
    numbers = spark.range(20).selectExpr("cast(id as string) as value")
    numbers.write.format("hutong").mode("append").options(**options).option("topic", "work-from").save()
    reader = spark.readStream.format("hutong").options(**options).option("startingOffsets", "earliest")
    writer = reader.option("subscribe", "work-from").load().writeStream.format("hutong").options(**options)
    folder = str(tmp_path / "checkpoint")
    query = writer.option("topic", "work-to").option("checkpointLocation", folder).trigger(availableNow=True).start()
    query.awaitTermination(300)
    copied = spark.read.format("hutong").options(**options).option("subscribe", "work-to").load()
    assert {bytes(row.value) for row in copied.select("value").collect()} == {b"%d" % number for number in range(20)}

    query.explain(True)
    copied.explain("extended")
    context = spark.sparkContext
    shown = [capsys.readouterr().out, json.dumps(query.recentProgress, default=str)]
    for page in PAGES:
        url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/{page}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            shown.append(answer.read().decode())
    shown += [path.read_text() for path in (tmp_path / "checkpoint").rglob("*") if path.is_file() and path.suffix == ""]
    assert all(shown)
    assert [text for text in shown if PASSWORD in text] == []


def test_jobs_of_the_command_line_log_in_as_they_are_told(secured: Secured, tmp_path: "Path") -> None:
    create_topic(secured.addresses["plain"], "work-links", records=0)
    properties = dict(secured.sasl(SCRAM_512).java())
    bootstrap = properties.pop("bootstrap.servers")
    source = check_input(bootstrap, "work-links", properties)
    assert source.record_count == 0
    assert source.options["kafka.sasl.jaas.config"] == properties["sasl.jaas.config"]
    words = ["pipeline", "run", "pagerank", "--bootstrap", bootstrap, "--topic", "work-links", "-o", str(tmp_path)]
    properties["sasl.jaas.config"] = properties["sasl.jaas.config"].replace(PASSWORD, "not hers")
    for name, value in properties.items():
        words += ["--kafka", f"{name}={value}"]
    assert run(words) == ExitCode.NOPERM


@pytest.mark.parametrize(
    ("changed", "topic", "told", "code"),
    [
        (
            "not hers",
            "work-from",
            "did not let in user 'alice' by SCRAM-SHA-512: check the name and password",
            ExitCode.NOPERM,
        ),
        (PASSWORD, "payroll", "TOPIC_AUTHORIZATION_FAILED, our user has no right to it", ExitCode.PROTOCOL),
    ],
)
def test_who_is_not_let_in_is_told_in_one_sentence(
    spark: "SparkSession", options: dict[str, str], changed: str, topic: str, told: str, code: int
) -> None:
    options["kafka.sasl.jaas.config"] = options["kafka.sasl.jaas.config"].replace(PASSWORD, changed)
    with pytest.raises(Exception, match="hutong") as failed:
        spark.read.format("hutong").options(**options).option("subscribe", topic).load().count()
    error = translate(failed.value)
    assert isinstance(error, UsageError)
    assert told in str(error)
    assert (error.exit_code, "\n" in str(error)) == (code, False)
    assert changed not in str(failed.value)
