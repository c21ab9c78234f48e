"""The archive on disk: the versions of its log, each written atomically, and its data files.

    FOLDER/_spark_metadata/N.compact   version N of the log (see `snapshot`); the highest number counts
    FOLDER/date=.../NAME.parquet       data files; those that no version lists are leftovers of a writer that was killed
    FOLDER/_staging/NAME/              files that a writer has not published yet

A version is written to a temporary file, synced, and linked to its name. Linking fails if the name exists: of two
writers that change the same version one must retry. Names of data files are never reused, so a version stays readable
until `vacuum` deletes its files after the grace period. A writer killed at any point leaves the previous version.

The folder is one of a file system with hard links (a local disk, NFS); others are refused.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from hutong.foundation.clock import Clock
from hutong.foundation.errors import ExitCode, UsageError
from hutong.pipelines.archive.snapshot import DataFile, Snapshot, decode, encode, without_removed
from hutong.pipelines.results import prepare_folder

LOG, STAGING = "_spark_metadata", "_staging"
VERSION_SUFFIX = ".compact"
VERSIONS_KEPT = 20
"""Older versions of the log are deleted: a reader that has just listed them must still find the one it chose."""
COMMIT_ATTEMPTS_MAX = 100
STAGING_GRACE_MS = 24 * 3_600_000
"""The age of a staging folder without a living writer: the folder's own age does not show writes deep inside."""
DATA_PATTERN = "**/*.parquet"
Change = Callable[[Snapshot], Snapshot | None]
"""Makes a new snapshot of the latest one; None when nothing is to be done."""


@dataclass(frozen=True, slots=True)
class Version:
    """`number` is -1 for an archive that holds nothing yet."""

    number: int
    snapshot: Snapshot


class ArchiveFolder:
    """One archive. `fresh_name` returns an unused name, such as a random UUID."""

    def __init__(self, path: Path, clock: Clock, fresh_name: Callable[[], str]) -> None:
        self.path = path
        self._log = path / LOG
        self._clock = clock
        self._fresh_name = fresh_name

    def latest(self) -> Version:
        """Raises UsageError when the folder holds something else, CorruptData when its log is damaged."""
        for _ in range(COMMIT_ATTEMPTS_MAX):
            number = max(self._numbers(), default=-1)
            # An empty folder, or one of other files: the latter is no archive of ours.
            if number < 0:
                self._refuse_foreign()
                return Version(-1, Snapshot())
            path = self._version_path(number)
            try:
                return Version(number, decode(path.read_text(encoding="utf-8"), str(path)))
            except FileNotFoundError:
                continue  # deleted since it was listed, so there are many newer ones
        raise UsageError(
            f"the log of the archive {self.path} changes faster than it can be read: try again", ExitCode.UNAVAILABLE
        )

    def commit(self, change: Change) -> Version | None:
        """Put what `change` makes of the latest snapshot in its place. None when it makes nothing of it."""
        for _ in range(COMMIT_ATTEMPTS_MAX):
            latest = self.latest()
            changed = change(latest.snapshot)
            # Nothing to do, for example a batch that is there already.
            if changed is None:
                return None
            changed.check_invariants()
            version = Version(latest.number + 1, changed)
            # False means that another writer linked this number first: its version is read and changed anew.
            if self._publish(version):
                self._drop_old(version.number)
                return version
        raise UsageError(
            f"too many writers change the archive {self.path} at once: stop some of them", ExitCode.UNAVAILABLE
        )

    def prepare(self) -> None:
        """Make an archive of an empty folder, so that what a killed writer leaves there is known to be ours."""
        if self.latest().number < 0:
            self.commit(lambda snapshot: snapshot)

    def staging(self) -> Path:
        """A new name for a folder to write data files in, before `adopt` gives them their place."""
        return self.path / STAGING / self._fresh_name()

    def adopt(self, staged: Path) -> tuple[DataFile, ...]:
        """Move the data files under `staged` to their partitions. They do not count before they are committed."""
        files = [self._move(source, staged) for source in sorted(staged.glob(DATA_PATTERN))]
        for folder in {self.path / file.partition for file in files}:
            _sync(folder)
        shutil.rmtree(staged, ignore_errors=True)
        return tuple(files)

    def vacuum(self, grace_ms: int) -> int:
        """Delete what has not counted for `grace_ms`: replaced files and leftovers. Return how many files."""
        before_ms = self._clock.wall_ms() - grace_ms
        snapshot = self.latest().snapshot
        expired = [file.path for file in snapshot.removed if file.at_ms <= before_ms]
        known = {file.path for file in snapshot.files} | {file.path for file in snapshot.removed}
        leftovers = [path for path in self._data_paths() if path not in known and self._is_older(path, before_ms)]
        for path in (*expired, *leftovers):
            (self.path / path).unlink(missing_ok=True)
        self.commit(lambda latest: without_removed(latest, expired))
        abandoned_ms = min(before_ms, self._clock.wall_ms() - STAGING_GRACE_MS)
        for staged in (self.path / STAGING).glob("*"):
            if self._is_older(str(staged.relative_to(self.path)), abandoned_ms):
                shutil.rmtree(staged, ignore_errors=True)
        return len(expired) + len(leftovers)

    def _move(self, source: Path, staged: Path) -> DataFile:
        from pyarrow import parquet

        row_count = parquet.read_metadata(source).num_rows
        _sync(source)
        partition = source.parent.relative_to(staged)
        target = self.path / partition / f"{self._fresh_name()}.parquet"
        target.parent.mkdir(parents=True, exist_ok=True)
        os.utime(source)  # leftovers are judged by their age: it begins now
        source.replace(target)
        facts = target.stat()
        relative = target.relative_to(self.path).as_posix()
        return DataFile(relative, facts.st_size, row_count, facts.st_mtime_ns // 1_000_000)

    def _publish(self, version: Version) -> bool:
        """Publish a version. Return False if its name is taken."""
        prepare_folder(self._log)
        draft = self._log / f".{self._fresh_name()}.draft"
        text = encode(version.snapshot, self.path.absolute().as_uri(), self._clock.wall_ms())
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, self._version_path(version.number))
        except FileExistsError:
            return False
        except OSError as error:
            reason = f"it must lie on a file system with hard links ({error.strerror})"
            raise UsageError(f"the archive {self.path} cannot be written: {reason}", ExitCode.CANTCREAT) from error
        finally:
            draft.unlink()
        _sync(self._log)
        return True

    def _drop_old(self, number: int) -> None:
        for old in self._numbers():
            # A reader that has listed the log may still open an older version.
            if old <= number - VERSIONS_KEPT:
                self._version_path(old).unlink(missing_ok=True)

    def _numbers(self) -> Iterator[int]:
        if self._log.is_dir():
            for name in os.listdir(self._log):
                number = name.removesuffix(VERSION_SUFFIX)
                if number != name and number.isdecimal():
                    yield int(number)

    def _version_path(self, number: int) -> Path:
        return self._log / f"{number}{VERSION_SUFFIX}"

    def _data_paths(self) -> Iterator[str]:
        for path in self.path.glob(DATA_PATTERN):
            relative = path.relative_to(self.path)
            if relative.parts[0] != STAGING:
                yield relative.as_posix()

    def _is_older(self, path: str, before_ms: int) -> bool:
        try:
            return (self.path / path).stat().st_mtime_ns // 1_000_000 <= before_ms
        except FileNotFoundError:
            return False

    def _refuse_foreign(self) -> None:
        """Files that were there before would vanish from the sight of readers with the first version."""
        if self.path.is_dir():
            foreign = sorted(path.name for path in self.path.iterdir() if not _is_ours(path))
            if foreign:
                raise UsageError(
                    f"the folder {self.path} holds {foreign[0]}, which is not of an archive: give the archive a folder "
                    "of its own",
                    ExitCode.CANTCREAT,
                )


def folder_of(path: str) -> Path:
    """The folder that a path or a `file:` URI names. Raises UsageError for other file systems."""
    parts = urlsplit(path)
    if parts.scheme not in ("", "file"):
        raise UsageError(
            f"an archive lies on a file system with hard links, and {path} is none: take a sink of the kind parquet or "
            "delta instead"
        )
    return Path(unquote(parts.path) if parts.scheme else path)


def _is_ours(path: Path) -> bool:
    """Return True for a folder without a version that holds at most a draft log, left by a killed writer."""
    return path.name == LOG and all(name.startswith(".") for name in os.listdir(path))


def _sync(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
