"""Jobs on records: their templates are sound pipelines, their page tells their parameters, which are read."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hutong.foundation.errors import UsageError
from hutong.pipelines.declared.check.checking import read_and_check
from hutong.pipelines.declared.declare.templates import write_template
from hutong.pipelines.jobs import JOBS, parameters
from hutong.pipelines.jobs.job import Job

PAGE = Path(__file__).parents[4] / "docs" / "pipelines-jobs.md"
SECTION = re.compile(r"^## (\S+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
SECTIONS = dict(SECTION.findall(PAGE.read_text()))
MINE = [JOBS[name] for name in SECTIONS]


@pytest.mark.parametrize("job", MINE, ids=lambda job: job.name)
def test_a_jobs_template_is_a_sound_pipeline(job: Job, tmp_path: Path) -> None:
    file, _ = write_template("mine", tmp_path, job=job.name, topic=None, bootstrap="127.0.0.1:9092", python=False)
    pipeline, problems = read_and_check(file)
    assert problems.found == []
    assert pipeline.transform.job == job.name
    assert pipeline.transform.parameters.keys() <= {parameter.name for parameter in job.parameters}


@pytest.mark.parametrize("job", MINE, ids=lambda job: job.name)
def test_a_jobs_page_tells_its_parameters(job: Job) -> None:
    assert [one.name for one in job.parameters if f"| `{one.name}` |" not in SECTIONS[job.name]] == []


def test_the_library_is_listed_without_spark() -> None:
    program = "import sys; import hutong.pipelines.jobs; print({'pyspark', 'pyarrow', 'numba'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "set()"


def test_parameters_are_read() -> None:
    given = {"count": " 12 ", "yes": "Yes", "no": "false", "names": " a, b,,", "set": "x"}
    assert parameters.whole_number(given, "count") == 12
    assert parameters.flag(given, "yes")
    assert not parameters.flag(given, "no")
    assert parameters.names(given, "names") == ("a", "b")
    assert parameters.needed(given, "set", "job") == "x"
    assert parameters.the_only({"one": 1}, "job") == 1
    assert parameters.resolved_path(Path("/home/me"), "archive") == "/home/me/archive"
    assert parameters.resolved_path(Path("/home/me"), "/archive") == "/archive"
    assert parameters.resolved_path(Path("/home/me"), "s3a://bucket/archive") == "s3a://bucket/archive"


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "٣"])
def test_what_is_no_number_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="must be a whole number from 0"):
        parameters.whole_number({"count": text}, "count")


def test_what_else_is_amiss_is_told() -> None:
    with pytest.raises(UsageError, match="it must be yes or no"):
        parameters.flag({"a": "maybe"}, "a")
    with pytest.raises(UsageError, match="needs the parameter path"):
        parameters.needed({}, "path", "archive")
    with pytest.raises(UsageError, match="there are 2: a, b"):
        parameters.the_only({"a": 1, "b": 2}, "archive")
