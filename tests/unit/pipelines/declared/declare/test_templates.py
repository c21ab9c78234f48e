"""What `init` writes is a pipeline without a problem, for each job of the library, too."""

from pathlib import Path

import pytest

from hutong.foundation.errors import UsageError
from hutong.pipelines.declared.check.checking import read_and_check
from hutong.pipelines.declared.declare.templates import write_template
from hutong.pipelines.jobs import JOBS

DECLARED = [job.name for job in JOBS.values() if job.template is not None]


@pytest.mark.parametrize("job", [None, *DECLARED])
def test_a_template_is_a_pipeline(job: str | None, tmp_path: Path) -> None:
    file, needs_topic = write_template("my-own", tmp_path, job=job, topic=None, bootstrap="10.0.0.1:9", python=False)
    pipeline, problems = read_and_check(file)
    assert problems.found == []
    assert (file.name, pipeline.name, pipeline.bootstrap) == ("my-own.toml", "my-own", "10.0.0.1:9")
    assert job is not None or needs_topic


def test_a_pipeline_in_python_is_one_too(tmp_path: Path) -> None:
    file, _ = write_template("my-own", tmp_path, job=None, topic="web", bootstrap="10.0.0.1:9", python=True)
    pipeline, problems = read_and_check(file)
    assert problems.found == []
    assert (file.name, pipeline.name, pipeline.sources["records"].topic) == ("my_own.py", "my-own", "web")


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "web.toml").write_text("mine")
    with pytest.raises(UsageError, match=r"web\.toml is there already"):
        write_template("web", tmp_path, job=None, topic=None, bootstrap="", python=False)
    assert (tmp_path / "web.toml").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "job", "python", "told"),
    [
        ("Web Pages", None, False, "a pipeline cannot be called 'Web Pages'"),
        ("web", "archiv", False, "there is no job archiv for a pipeline; did you mean archive?"),
        ("web", "archive", True, "leave out --python"),
    ],
)
def test_what_cannot_be_written_is_told(name: str, job: str | None, python: bool, told: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=told):
        write_template(name, tmp_path, job=job, topic=None, bootstrap="", python=python)
    assert list(tmp_path.iterdir()) == []
