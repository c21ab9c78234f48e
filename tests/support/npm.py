"""Packages of npm for tests, fetched once into the user's cache folder, never into the repository."""

import fcntl
import os
import pathlib
import shutil
import subprocess
from typing import Final

import pytest

FETCH_S_MAX: Final = 120.0


def node_modules(name: str, *packages: str) -> pathlib.Path:
    """A node_modules folder that holds the packages (`NAME@VERSION`). Skips the test where that cannot be had."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("node and npm are not installed")
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "hutong-compat"
    folder = cache / name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:  # several test runs may want it at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = [one for one in packages if not (folder / "node_modules" / one.rpartition("@")[0]).exists()]
        if missing:
            command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), *packages]
            fetched = subprocess.run(command, capture_output=True, text=True, check=False, timeout=FETCH_S_MAX)
            if fetched.returncode:
                pytest.skip(f"npm could not fetch {', '.join(missing)}: {fetched.stderr[-300:]}")
    return folder / "node_modules"


def chromium() -> str:
    """A browser that can run without a screen. Skips the test where there is none."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    pytest.skip("no chromium is installed")
