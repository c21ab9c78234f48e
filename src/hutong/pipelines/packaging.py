"""`python -m hutong.pipelines.packaging hutong.zip`: what a job needs of this package, for `spark-submit --py-files`.

The zip holds our sources alone, not what they import: Arrow, NumPy, numba and Cramjam must be on the executors, as
PySpark is. Files are in order and carry no time, so that the same version gives the same zip.
"""

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from hutong.foundation.errors import ExitCode, UsageError

PACKAGES = ("foundation", "wire", "pipelines")
PACKAGE = Path(__file__).parents[1]
DISCOVERED = "pyspark_hutong"
UNUSED = (".nbi", ".nbc", ".so", ".c")  # numba's cache; Python imports no compiled module from a zip
TIMELESS = (1980, 1, 1, 0, 0, 0)
READABLE = 0o644 << 16


def write_zip(path: Path) -> int:
    """Write the zip and return the number of its files. Raises UsageError."""
    try:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            names = 0
            for name, source in _sources(PACKAGE):
                entry = zipfile.ZipInfo(name, TIMELESS)
                entry.external_attr, entry.compress_type = READABLE, zipfile.ZIP_DEFLATED
                archive.writestr(entry, source.read_bytes())
                names += 1
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}", ExitCode.CANTCREAT) from error
    return names


def main(words: list[str]) -> int:
    if len(words) != 1 or not words[0].endswith(".zip"):
        sys.stderr.write("say where to write the zip: python -m hutong.pipelines.packaging hutong.zip\n")
        return ExitCode.USAGE
    try:
        write_zip(Path(words[0]))
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def _sources(package: Path) -> Iterator[tuple[str, Path]]:
    yield "hutong/__init__.py", package / "__init__.py"
    folders = [package / name for name in PACKAGES] + [package.parent / DISCOVERED]
    for folder in folders:
        for source in sorted(folder.rglob("*")):
            if source.is_file() and "__pycache__" not in source.parts and source.suffix not in UNUSED:
                yield source.relative_to(package.parent).as_posix(), source


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
