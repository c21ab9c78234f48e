"""A gRPC client in Go for the tests: built once, with generated stubs, in the user's cache folder.

Strategy: everything is named with its version, and go.sum holds the modules to their contents, so what is in the cache
is what would be built anew; a change of any source has a folder of its own. A first build compiles gRPC itself.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Final

import pytest
from tests.support.grpc_node import generate

BUILD_S_MAX: Final = 150.0  # some 40 s of processor time; a machine that needs longer leaves the test out
PLUGINS: Final = (
    "google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12",
    "google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2",
)
MODULE: Final = "hutong.test/grpcclient"


def built_client(source: pathlib.Path, proto: pathlib.Path) -> pathlib.Path:
    """The program in `source` with stubs of `proto` in its package `shop`. Skips the test where it cannot be built."""
    if not shutil.which("go"):
        pytest.skip("go is not installed")
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "hutong-compat" / "grpc-go"
    files = [*sorted(file for file in source.iterdir() if file.suffix in (".go", ".mod", ".sum")), proto]
    content = b"".join(file.read_bytes() for file in files) + repr(PLUGINS).encode()
    folder = cache / hashlib.sha256(content).hexdigest()[:16]
    program = folder / "client"
    if not program.exists():
        deadline_s = time.monotonic() + BUILD_S_MAX
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "shop").mkdir(parents=True)
        for file in files:
            shutil.copy(file, folder)
        for plugin in PLUGINS:
            _go(["install", plugin], cache, deadline_s, {"GOBIN": str(cache / "bin")})
        _generate(folder, proto.name, cache / "bin")
        _go(["build", "-o", "built", "."], folder, deadline_s)
        (folder / "built").rename(program)
    return program


def _generate(folder: pathlib.Path, proto: str, plugins: pathlib.Path) -> None:
    options = []
    for name in ("go", "go-grpc"):
        options += [
            f"--plugin=protoc-gen-{name}={plugins / f'protoc-gen-{name}'}",
            f"--{name}_out={folder}",
            f"--{name}_opt=module={MODULE}",
            f"--{name}_opt=M{proto}={MODULE}/shop",
        ]
    generate(folder, folder / proto, *options)


def _go(
    arguments: Sequence[str], folder: pathlib.Path, deadline_s: float, environment: Mapping[str, str] | None = None
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    settings = {**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": "", **(environment or {})}
    try:
        ran = subprocess.run(
            ["go", *arguments],
            cwd=folder,
            env=settings,
            capture_output=True,
            text=True,
            check=False,
            timeout=max(1.0, deadline_s - time.monotonic()),
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"go {arguments[0]} did not end within {BUILD_S_MAX:g} s")
    if ran.returncode:
        if _is_out_of_reach(ran.stderr):
            pytest.skip(f"go cannot fetch modules here: {ran.stderr[-300:]}")
        raise AssertionError(ran.stderr)


OUT_OF_REACH: Final = (
    "dial tcp",
    "disabled by GOPROXY",
    "lookup proxy.golang.org",
    "no such host",
    "i/o timeout",
    "connection refused",
    "network is unreachable",
    "proxyconnect",
    "requires go >=",
    "403 Forbidden",
    "502 Bad Gateway",
    "503 Service",
)


def _is_out_of_reach(told: str) -> bool:
    return any(word in told for word in OUT_OF_REACH)
