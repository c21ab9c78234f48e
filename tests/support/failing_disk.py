"""A disk that fails below a folder, for one process: a library, loaded before libc, whose writes end with EIO.

Strategy: while a file lies at a place of its own, every write and flush of a file below the path that is written in it
fails, as on a disk with a broken sector or a lost controller. All else goes to the system. Needs cc; knows nothing of
nodes. Only writes by libc are seen, so the process must not use io_uring.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

SOURCE: Final = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static int fails(int descriptor) {
    char folder[4096], link[64], path[4096];
    const char *trigger = getenv("FAILING_DISK");
    int opened = trigger ? open(trigger, O_RDONLY | O_CLOEXEC) : -1;
    if (opened < 0) return 0;
    ssize_t length = read(opened, folder, sizeof folder - 1);
    close(opened);
    if (length <= 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t found = readlink(link, path, sizeof path - 1);
    return found >= length && !memcmp(path, folder, length);
}

#define GIVEN int descriptor, const void *bytes, size_t count
#define PARTS int descriptor, const struct iovec *parts, int count
#define FAILING(type, name, arguments, values) \
    type name arguments { \
        static type (*real) arguments; \
        if (!real) real = (type (*) arguments) dlsym(RTLD_NEXT, #name); \
        if (fails(descriptor)) { errno = EIO; return -1; } \
        return real values; \
    }

FAILING(ssize_t, write, (GIVEN), (descriptor, bytes, count))
FAILING(ssize_t, pwrite, (GIVEN, off_t at), (descriptor, bytes, count, at))
FAILING(ssize_t, pwrite64, (GIVEN, off_t at), (descriptor, bytes, count, at))
FAILING(ssize_t, writev, (PARTS), (descriptor, parts, count))
FAILING(ssize_t, pwritev, (PARTS, off_t at), (descriptor, parts, count, at))
FAILING(ssize_t, pwritev64, (PARTS, off_t at), (descriptor, parts, count, at))
FAILING(ssize_t, pwritev2, (PARTS, off_t at, int flags), (descriptor, parts, count, at, flags))
FAILING(ssize_t, pwritev64v2, (PARTS, off_t at, int flags), (descriptor, parts, count, at, flags))
FAILING(int, fsync, (int descriptor), (descriptor))
FAILING(int, fdatasync, (int descriptor), (descriptor))
"""


class FailingDisk:
    """A disk for one process, which is run by the words `prefix`. Skips the test where there is no compiler."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("no cc here to make a disk that fails")
        folder.mkdir(parents=True, exist_ok=True)
        self._trigger = folder / "failing"
        source, library = folder / "failing_disk.c", folder / "failing_disk.so"
        source.write_text(SOURCE)
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
        self.prefix = ("env", f"LD_PRELOAD={library}", f"FAILING_DISK={self._trigger}")

    def fail(self, path: Path) -> None:
        """Let writes below this path fail from now on."""
        prepared = self._trigger.with_suffix(".new")
        prepared.write_text(str(path.resolve()))
        prepared.rename(self._trigger)

    def mend(self) -> None:
        self._trigger.unlink(missing_ok=True)
