"""The data folder: one node at a time, recognised when it comes back, refused when it is not ours."""

import errno
import fcntl
import json
import os
import stat
from pathlib import Path

import pytest

from hutong.foundation.errors import UsageError
from hutong.server.broker.data.data_dir import FORMAT, DataDir


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


def test_a_second_node_is_refused_also_when_the_lock_file_was_removed(tmp_path: Path) -> None:
    first = DataDir(tmp_path, os.urandom)
    (tmp_path / "hutong.lock").unlink()
    with pytest.raises(UsageError, match="in use by another node"):
        DataDir(tmp_path, os.urandom)
    first.close()
    DataDir(tmp_path, os.urandom).close()


def test_a_version_that_locks_the_file_alone_keeps_others_out_too(tmp_path: Path) -> None:
    DataDir(tmp_path, os.urandom).close()
    with (tmp_path / "hutong.lock").open("rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="in use by another node"):
            DataDir(tmp_path, os.urandom)


def test_where_folders_cannot_be_locked_the_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on NFS."""
    real = fcntl.flock

    def flock(descriptor: int, operation: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    first = DataDir(tmp_path, os.urandom)
    with pytest.raises(UsageError, match="in use by another node"):
        DataDir(tmp_path, os.urandom)
    first.close()


@pytest.mark.parametrize("position", range(60))
def test_a_flipped_bit_in_the_mark_is_found(tmp_path: Path, position: int) -> None:
    DataDir(tmp_path, os.urandom).close()
    mark = tmp_path / "hutong.json"
    content = bytearray(mark.read_bytes())
    content[position] ^= 0x01
    mark.write_bytes(content)
    with pytest.raises(UsageError, match=r"hutong\.json is damaged"):
        DataDir(tmp_path, os.urandom)


def test_a_mark_of_a_version_without_check_sum_is_taken_and_gets_one(tmp_path: Path) -> None:
    (tmp_path / "hutong.json").write_text(json.dumps({"format": FORMAT, "cluster_id": "abc"}))
    first = DataDir(tmp_path, os.urandom)
    assert first.cluster_id == "abc"
    first.close()
    assert "crc32" in json.loads((tmp_path / "hutong.json").read_text())
    second = DataDir(tmp_path, os.urandom)
    assert second.cluster_id == "abc"
    second.close()


def test_what_is_new_is_the_owners_alone_and_what_is_there_keeps_its_mode(tmp_path: Path) -> None:
    old_mask = os.umask(0)
    try:
        DataDir(tmp_path / "made" / "data", os.urandom).close()
        given = tmp_path / "given"
        given.mkdir(0o750)
        DataDir(given, os.urandom).close()
    finally:
        os.umask(old_mask)
    made = tmp_path / "made" / "data"
    assert mode_of(made) == 0o700
    assert {mode_of(path) for path in made.iterdir()} == {0o600}
    assert mode_of(given) == 0o750


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_each_folder_that_is_made_is_safe_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    data = tmp_path / "a" / "b" / "data"
    DataDir(data, os.urandom).close()
    assert synced == [tmp_path, tmp_path / "a", tmp_path / "a" / "b", data / "hutong.json.new", data]
    synced.clear()
    DataDir(data, os.urandom).close()
    assert synced == [data.parent], "who made it may have been killed before"


def test_the_folder_knows_when_it_was_used_last(tmp_path: Path) -> None:
    first = DataDir(tmp_path, os.urandom)
    first.note_use(1_700_000_000_123)
    first.close()
    second = DataDir(tmp_path, os.urandom)
    assert second.last_used_ms == 1_700_000_000_123
    second.close()


def test_a_new_folder_joins_a_cluster_and_keeps_its_own_number(tmp_path: Path) -> None:
    folder = DataDir(tmp_path, os.urandom)
    origin = folder.origin
    folder.join_cluster("another-cluster")
    folder.close()
    again = DataDir(tmp_path, os.urandom)

    assert (again.cluster_id, again.origin) == ("another-cluster", origin)
    again.close()


def test_a_folder_with_records_of_one_cluster_joins_no_other(tmp_path: Path) -> None:
    folder = DataDir(tmp_path, os.urandom)
    folder.group_path("days").mkdir(parents=True)
    folder.close()
    used = DataDir(tmp_path, os.urandom)

    used.join_cluster(used.cluster_id)
    with pytest.raises(UsageError, match="belongs to the cluster"):
        used.join_cluster("another-cluster")
    used.close()
