"""Pipelines from TOML and from Python: what is read, and what is told about a file that does not fit."""

import sys
from pathlib import Path

import pytest

from hutong.foundation.errors import UsageError
from hutong.pipelines.declared import Pipeline, Sink, Source, Transform, Watermark
from hutong.pipelines.declared.declare.reading import load_module, read_pipeline

FULL = """
[pipeline]
name = "web-hours"
bootstrap = "10.0.0.1:9092"
trigger = "available now"
restarts = 3
[sources.web]
topics = ["web", "web-old"]
starting = "latest"
value_format = "json"
value_schema = "user STRING, bytes BIGINT"
watermark = { column = "timestamp", delay = "10 minutes" }
options = { maxOffsetsPerTrigger = 1000, includeHeaders = true }
[sources.users]
kind = "parquet"
path = "users"
static = true
[transform]
sql = "SELECT * FROM web"
parameters = { gap = "30 minutes" }
[sinks.out]
kind = "topic"
from = "result"
topic = "${OUT}-hours"
delivery = "at least once"
key = "user"
value_format = "json"
[sinks.files]
kind = "parquet"
path = "files"
partition_by = ["day"]
[kafka]
security.protocol = "SASL_SSL"
[spark]
"spark.sql.shuffle.partitions" = "4"
spark.sql.ansi.enabled = false
"""


def written(folder: Path, text: str, name: str = "p.toml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def problems_of(folder: Path, text: str) -> list[str]:
    _, problems = read_pipeline(written(folder, text), {})
    return [str(problem) for problem in problems.found]


def test_everything_that_can_be_declared_is_read(tmp_path: Path) -> None:
    file = written(tmp_path, FULL)
    pipeline, problems = read_pipeline(file, {"OUT": "web"})
    assert problems.found == []
    assert pipeline == Pipeline(
        name="web-hours",
        bootstrap="10.0.0.1:9092",
        trigger="available now",
        restarts=3,
        sources={
            "web": Source(
                topics=("web", "web-old"),
                starting="latest",
                value_format="json",
                value_schema="user STRING, bytes BIGINT",
                watermark=Watermark("timestamp", "10 minutes"),
                options={"maxOffsetsPerTrigger": "1000", "includeHeaders": "true"},
            ),
            "users": Source(kind="parquet", path="users", static=True),
        },
        transform=Transform(sql="SELECT * FROM web", parameters={"gap": "30 minutes"}),
        sinks={
            "out": Sink(frame="result", topic="web-hours", delivery="at least once", key="user", value_format="json"),
            "files": Sink(kind="parquet", path="files", partition_by=("day",)),
        },
        kafka={"security.protocol": "SASL_SSL"},
        spark={"spark.sql.shuffle.partitions": "4", "spark.sql.ansi.enabled": "false"},
        file=file,
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "pipeline: the table is missing"),
        ("[pipeline]", "pipeline.name: is missing"),
        ('[pipeline]\nname = "a"\ntriger = "1 second"', "pipeline.triger: is not known here; did you mean trigger?"),
        ('[pipeline]\nname = "a"\n[source.a]', "source: is no table of a pipeline; did you mean sources?"),
        ("[pipeline]\nname = 3", "pipeline.name: is 3: write a text"),
        ('[pipeline]\nname = "a"\nrestarts = true', "pipeline.restarts: is True: write a whole number"),
        ('[pipeline]\nname = "a"\n[sources]\na = 1', "sources: is not a table of tables: write [sources.NAME]"),
        ("pipeline = 3", "pipeline: is not a table: write [pipeline]"),
        (
            '[pipeline]\nname = "a"\n[sources.a]\ntopics = "t"',
            "sources.a.topics: is 't': write a list of texts such as",
        ),
        ('[pipeline]\nname = "a"\n[sources.a]\nvalue_fromat = "json"', "did you mean value_format?"),
        ('[pipeline]\nname = "a"\n[sources.a]\nwatermark = "1 hour"', 'write { column = "timestamp", delay ='),
        ('[pipeline]\nname = "a"\n[sources.a]\noptions = { x = [1] }', "sources.a.options.x: is [1]: write a text"),
        ('[pipeline]\nname = "a"\n[transform]\nsql = 3', "transform.sql: is 3: write a query"),
        ('[pipeline]\nname = "a"\nbootstrap = "${HOST}:1"', "needs the environment variable HOST, which is not set"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(text: str, told: str, tmp_path: Path) -> None:
    assert any(told in problem for problem in problems_of(tmp_path, text)), problems_of(tmp_path, text)


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    assert len(problems_of(tmp_path, "[pipeline]\nnaem = 'a'\n[sinks.o]\nkin = 'topic'\n[tranform]")) == 4


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("p.toml", "[pipeline]\nname = a", "is not TOML: .*line 2"),
        ("p.toml", "a = " + "[" * 100_000, "is not TOML: its values are nested too deep"),
        ("p.toml", "a = " + "{a = " * 20_000, "is not TOML: its values are nested too deep"),
        ("p.toml", ".".join(["a"] * 500_000) + " = 1", "is not TOML: a key has more than 100 parts"),
        ("p.toml", "[" + " . ".join(["'a'"] * 150_000) + "]", "is not TOML: a key has more than 100 parts"),
        ("p.toml", "# " + "x" * 2**20, "is not TOML: it is larger than 1048576 bytes"),
        ("p.toml", b"\xff".decode("latin-1") + "\0", "is not TOML"),
        ("p.py", "x = 1", "has no pipeline: write pipeline = Pipeline"),
        ("p.py", "x = 1\nraise ValueError('no')", "line 2, cannot be run: ValueError: no"),
        ("p.py", "x = = 1", "line 1, cannot be run: SyntaxError"),
    ],
)
def test_a_file_that_holds_no_pipeline_is_told(name: str, text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=told):
        read_pipeline(written(tmp_path, text, name))


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file") as told:
        read_pipeline(tmp_path / "p.toml")
    assert told.value.exit_code == 66


def test_a_pipeline_in_python_is_the_object_in_its_file(tmp_path: Path) -> None:
    text = (
        "from hutong.pipelines.declared import Pipeline, Source, Sink, Transform\n"
        "def double(frames, parameters): return frames['a']\n"
        "pipeline = Pipeline(name='p', sources={'a': Source(topic='t')}, transform=Transform(function=double),\n"
        "    sinks={'o': Sink(kind='console')})\n"
    )
    file = written(tmp_path, text, "double_it.py")
    pipeline, problems = read_pipeline(file)
    assert problems.found == []
    assert (pipeline.name, pipeline.file, pipeline.folder) == ("p", file, tmp_path)
    assert callable(pipeline.transform.function)


@pytest.mark.parametrize("name", ["json", "tomllib", "hutong", "hutong.pipelines", "antigravity"])
def test_a_file_takes_no_other_modules_place(name: str, tmp_path: Path) -> None:
    file = tmp_path / f"{name}.py"
    file.write_text("raise ValueError('it was run')")
    before = sys.modules.get(name)
    with pytest.raises(UsageError, match=f"has the name of another module, {name}: rename it"):
        read_pipeline(file)
    assert sys.modules.get(name) is before
    assert str(tmp_path) not in sys.path


def test_files_of_two_pipelines_may_have_one_name(tmp_path: Path) -> None:
    for folder, topic in (("one", "a"), ("two", "b")):
        (tmp_path / folder).mkdir()
        file = tmp_path / folder / "some_pipeline_file.py"
        file.write_text(f"x = {topic!r}")
        assert load_module(file).x == topic
