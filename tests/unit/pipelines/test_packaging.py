import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hutong.pipelines.packaging import main, write_zip


def test_what_a_job_needs_is_in_the_zip(tmp_path: Path) -> None:
    path = tmp_path / "hutong.zip"
    assert main([str(path)]) == 0
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    assert {"hutong/__init__.py", "pyspark_hutong/__init__.py", "hutong/pipelines/source/readers.py"} <= set(names)
    assert not [name for name in names if "__pycache__" in name or name.startswith("hutong/broker")]
    again = tmp_path / "again.zip"
    assert write_zip(again) == len(names)
    assert again.read_bytes() == path.read_bytes()


def test_the_zip_is_enough_to_read_and_write(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    path = tmp_path / "hutong.zip"
    write_zip(path)
    modules = "pyspark_hutong, hutong.pipelines.source.readers, hutong.pipelines.sink.writers, "
    modules += "hutong.pipelines.client.clusters, hutong.pipelines.sink.producing"
    program = f"import {modules}; print(hutong.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(path)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(path))


def test_where_it_goes_must_be_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 64
    assert main([str(tmp_path / "no-folder" / "x.zip")]) == 73
    told = capsys.readouterr().err
    assert "say where to write the zip" in told
    assert "cannot be written: No such file" in told
