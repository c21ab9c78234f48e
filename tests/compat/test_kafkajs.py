"""kafkajs, the usual client of Node.js; fetched once into the user's cache folder, never into the repository."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

VERSION = "2.2.4"
CLIENT = pathlib.Path(__file__).with_name("kafkajs_client.js")
DEADLINE_S = 90.0


@pytest.fixture(scope="module")
def modules() -> pathlib.Path:
    """A node_modules folder that holds kafkajs."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("node and npm are not installed")
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "hutong-compat"
    folder = cache / f"kafkajs-{VERSION}"
    if not (folder / "node_modules" / "kafkajs").exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), f"kafkajs@{VERSION}"]
        fetched = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
        if fetched.returncode:
            pytest.skip(f"npm could not fetch kafkajs: {fetched.stderr[-300:]}")
    return folder / "node_modules"


def test_produces_consumes_commits_and_resumes(modules: pathlib.Path, bootstrap: str, name: str) -> None:
    environment = {**os.environ, "NODE_PATH": str(modules), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
    done = subprocess.run(
        ["node", str(CLIENT), bootstrap, name],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["seen"] == [f"{number} k{number} v{number} kafkajs" for number in range(100)]
    assert (result["committed"], result["end"], result["listed"]) == ("60", "100", True)
