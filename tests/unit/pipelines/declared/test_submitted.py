"""A declared pipeline as a program of spark-submit, as far as it goes without Spark."""

from pathlib import Path

import pytest

from hutong.pipelines.declared.submitted import GATEWAY, main

PIPELINE = """
[pipeline]
name = "web"
bootstrap = "127.0.0.1:1"

[sources.a]
topic = "t"

[sinks.b]
topic = "u"
"""


def test_without_spark_submit_the_other_command_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(GATEWAY, raising=False)
    file = tmp_path / "web.toml"
    file.write_text(PIPELINE)
    assert main([str(file)]) == 64
    assert "hutong pipeline run" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "told"), [(None, "there is no file"), (PIPELINE + "nonsense = 1\n", "nonsense")])
def test_what_is_wrong_with_the_file_is_told_first(
    text: str | None, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / "web.toml").write_text(text)
    assert main([str(tmp_path / "web.toml")]) in (65, 66, 78)
    assert told in capsys.readouterr().err
