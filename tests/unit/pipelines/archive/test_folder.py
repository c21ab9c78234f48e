"""The archive on disk: one step at a time, whoever else writes and wherever a writer is killed."""

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import UnknownFormat, UsageError
from hutong.pipelines.archive import folder as module
from hutong.pipelines.archive.folder import LOG, STAGING, STAGING_GRACE_MS, VERSIONS_KEPT, ArchiveFolder, folder_of
from hutong.pipelines.archive.snapshot import BatchOf, DataFile, Snapshot, with_batch, with_replaced

NOW_MS = 4_000_000_000_000
"""Later than any file that a test makes."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(wall_ms=NOW_MS)


@pytest.fixture
def archive(tmp_path: Path, clock: ManualClock) -> ArchiveFolder:
    """One that is prepared."""
    made = opened(tmp_path / "archive", clock)
    made.prepare()
    return made


def opened(path: Path, clock: ManualClock, prefix: str = "n") -> ArchiveFolder:
    numbers = itertools.count()
    return ArchiveFolder(path, clock, lambda: f"{prefix}{next(numbers)}")


def staged(archive: ArchiveFolder, *days: str, rows: int = 3) -> Path:
    """The files that Spark would have written: one for each day."""
    place = archive.staging()
    for number, day in enumerate(days):
        (place / f"date={day}").mkdir(parents=True, exist_ok=True)
        parquet.write_table(pa.table({"value": [b"x"] * rows}), place / f"date={day}" / f"part-{number}.parquet")
    return place


def added(archive: ArchiveFolder, *days: str, batch: BatchOf | None = None) -> tuple[DataFile, ...]:
    files = archive.adopt(staged(archive, *days))
    archive.commit(lambda snapshot: with_batch(snapshot, files, batch))
    return files


def test_files_count_once_they_are_committed(archive: ArchiveFolder) -> None:
    archive.prepare()
    assert archive.latest().number == 0, "prepared before"
    files = archive.adopt(staged(archive, "2015-05-17", "2015-05-18"))
    assert archive.latest().snapshot.files == ()
    archive.commit(lambda snapshot: with_batch(snapshot, files, BatchOf("q", 0)))
    found = archive.latest().snapshot
    assert found.files == files
    assert found.row_count == 6
    assert [one.partition for one in files] == ["date=2015-05-17", "date=2015-05-18"]
    assert all((archive.path / one.path).stat().st_size == one.size_bytes for one in files)
    assert list((archive.path / STAGING).iterdir()) == []
    assert archive.commit(lambda snapshot: with_batch(snapshot, files, BatchOf("q", 0))) is None


def test_of_two_writers_one_looks_again(archive: ArchiveFolder, clock: ManualClock) -> None:
    other = opened(archive.path, clock, "other")
    mine = archive.adopt(staged(archive, "2015-05-17"))

    def interrupted(snapshot: Snapshot) -> Snapshot | None:
        if not snapshot.files:
            added(other, "2015-05-18")
        return with_batch(snapshot, mine, None)

    version = archive.commit(interrupted)
    assert version is not None
    assert version.number == 2
    assert [one.partition for one in version.snapshot.files] == ["date=2015-05-18", "date=2015-05-17"]


def test_too_many_writers_are_told(archive: ArchiveFolder, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMMIT_ATTEMPTS_MAX", 3)
    other = opened(archive.path, clock, "other")

    def disturbed(snapshot: Snapshot) -> Snapshot:
        other.commit(lambda latest: latest)
        return snapshot

    with pytest.raises(UsageError, match="too many writers"):
        archive.commit(disturbed)


def test_old_versions_of_the_log_go(archive: ArchiveFolder) -> None:
    for _ in range(VERSIONS_KEPT + 5):
        archive.commit(lambda snapshot: snapshot)
    assert len(os.listdir(archive.path / LOG)) == VERSIONS_KEPT
    assert archive.latest().number == VERSIONS_KEPT + 5


def test_replaced_files_are_deleted_after_the_time_of_grace(archive: ArchiveFolder, clock: ManualClock) -> None:
    old = (*added(archive, "2015-05-17"), *added(archive, "2015-05-17"))
    new = archive.adopt(staged(archive, "2015-05-17"))
    archive.commit(lambda snapshot: with_replaced(snapshot, old, new, clock.wall_ms()))
    clock.advance(999)
    assert archive.vacuum(1000) == 0
    assert all((archive.path / one.path).exists() for one in old), "a reader may still be at them"
    clock.advance(1)
    assert archive.vacuum(1000) == 2
    assert not any((archive.path / one.path).exists() for one in old)
    assert archive.latest().snapshot == Snapshot(new)
    assert archive.vacuum(0) == 0


def test_what_a_killed_writer_left_goes_too(archive: ArchiveFolder, clock: ManualClock) -> None:
    kept = added(archive, "2015-05-17")
    (orphan,) = archive.adopt(staged(archive, "2015-05-17"))
    place = staged(archive, "2015-05-17")
    for path in (place, archive.path / orphan.path):
        os.utime(path, (NOW_MS / 1000, NOW_MS / 1000))
    assert archive.vacuum(1000) == 0
    clock.advance(1000)
    assert archive.vacuum(1000) == 1
    assert place.exists()
    clock.advance(STAGING_GRACE_MS)
    assert archive.vacuum(1000) == 0
    assert not place.exists()
    assert archive.latest().snapshot.files == kept


def killed_at(step: int) -> Callable[..., None]:
    """An `os.fsync` that fails at its call number `step`, as the end of a process would."""
    calls = itertools.count()

    def fsync(_number: int) -> None:
        if next(calls) == step:
            raise KeyboardInterrupt

    return fsync


def test_killed_at_any_step_a_writer_leaves_the_version_before_or_its_own(
    archive: ArchiveFolder, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = (*added(archive, "2015-05-17"), *added(archive, "2015-05-17"))
    for step in itertools.count():
        place = staged(archive, "2015-05-17", rows=6)
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", killed_at(step))
            try:
                new = archive.adopt(place)
                archive.commit(lambda snapshot, new=new: with_replaced(snapshot, old, new, 0))  # type: ignore[misc]
            except KeyboardInterrupt:
                assert archive.latest().snapshot.row_count == 6
                if archive.latest().snapshot.files == old:
                    continue
        break
    assert step == 3, "killed after a file, its folder, the draft: the version before; after the link: its own"
    assert len(archive.latest().snapshot.files) == 1


@pytest.mark.parametrize("name", ["date=2015-05-17", "part-0.parquet", f"{LOG}/0"])
def test_a_folder_that_holds_something_else_is_refused(tmp_path: Path, clock: ManualClock, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    with pytest.raises(UsageError, match="give the archive a folder of its own"):
        opened(tmp_path, clock).prepare()


def test_a_log_of_sparks_own_sink_is_refused(tmp_path: Path, clock: ManualClock) -> None:
    (tmp_path / LOG).mkdir()
    (tmp_path / LOG / "9.compact").write_text('v1\n{"path":"file:/x","action":"add"}')
    with pytest.raises(UnknownFormat, match="was not written by hutong"):
        opened(tmp_path, clock).prepare()


def test_a_file_system_without_links_is_refused(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(_source: Path, _target: Path) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(UsageError, match="hard links"):
        opened(tmp_path, clock).prepare()
    assert list((tmp_path / LOG).iterdir()) == []


def test_paths_and_file_addresses_name_folders() -> None:
    assert folder_of("/a b/c") == folder_of("file:///a%20b/c") == Path("/a b/c")
    with pytest.raises(UsageError, match="kind parquet"):
        folder_of("s3a://bucket/x")
