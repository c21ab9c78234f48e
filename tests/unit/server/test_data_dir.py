"""The data folder: one node at a time, recognised when it comes back, refused when it is not ours."""

import errno
import json
import os
from pathlib import Path

import pytest

from hutong.foundation.errors import UsageError
from hutong.server.data_dir import FORMAT, DataDir


def test_the_cluster_id_outlives_the_node(tmp_path: Path) -> None:
    first = DataDir(tmp_path / "data", os.urandom)
    cluster_id = first.cluster_id
    first.close()
    second = DataDir(tmp_path / "data", os.urandom)
    assert second.cluster_id == cluster_id
    assert len(cluster_id) == 22
    second.close()


def test_a_second_node_is_told_that_the_folder_is_in_use(tmp_path: Path) -> None:
    first = DataDir(tmp_path, os.urandom)
    with pytest.raises(UsageError, match="in use by another node") as error:
        DataDir(tmp_path, os.urandom)
    assert error.value.exit_code == 75
    first.close()
    DataDir(tmp_path, os.urandom).close()


def test_a_path_that_cannot_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--data-dir") as error:
        DataDir(tmp_path / "file" / "data", os.urandom)
    assert error.value.exit_code == 73


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", f'{{"format": {FORMAT}}}', "\x00" * 10])
def test_a_damaged_mark_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "hutong.json").write_text(content)
    with pytest.raises(UsageError, match=r"hutong\.json is damaged"):
        DataDir(tmp_path, os.urandom)
    (tmp_path / "hutong.json").unlink()
    DataDir(tmp_path, os.urandom).close()  # the refusal gave the lock back


@pytest.mark.parametrize("trouble", ["unreadable", "full"])
def test_what_the_system_refuses_is_one_sentence(trouble: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if trouble == "unreadable":
        (tmp_path / "hutong.json").mkdir()
    else:

        def full(_descriptor: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match=f"Cannot use the data folder {tmp_path}: .*--data-dir") as error:
        DataDir(tmp_path, os.urandom)
    assert error.value.exit_code == 73


def test_a_folder_of_a_later_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hutong.json").write_text(json.dumps({"format": FORMAT + 1, "cluster_id": "x"}))
    with pytest.raises(UsageError, match=f"format {FORMAT + 1}"):
        DataDir(tmp_path, os.urandom)
