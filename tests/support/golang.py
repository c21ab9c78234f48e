"""Programs in Go for the tests: each built once, in the user's cache folder.

Strategy: everything is named with its version, and go.sum holds the modules to their contents, so what is in the cache
is what would be built anew; a change of any source has a folder of its own. A first build compiles gRPC, or the Kafka
clients, themselves: that takes more time than their tests, so `python -m tests.support.golang` builds all of them, and
a test session begins with starting that, at the lowest priority and on one processor (`Ahead`). Whoever needs a program
waits at its lock.
"""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Final

import pytest
from tests.support.grpc_node import ROOT, generate, print_proto, python_path
from tests.support.waiting import until

BUILD_S_MAX: Final = 150.0  # some 40 s of processor time; a machine that needs longer leaves the test out
COMPAT_FOLDER: Final = pathlib.Path(__file__).parents[1] / "compat"
KAFKA_SOURCE: Final = COMPAT_FOLDER / "kafka_go"
REGISTRY_SOURCE: Final = COMPAT_FOLDER / "registry_go"
ROCKETMQ_SOURCE: Final = COMPAT_FOLDER / "rocketmq_go"
ROCKETMQ_EXAMPLES: Final = COMPAT_FOLDER / "rocketmq_go_examples"
GRPC_SOURCE: Final = COMPAT_FOLDER / "grpc_go"
PLUGINS: Final = (
    "google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12",
    "google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2",
)
MODULE: Final = "hutong.test/grpcclient"
Build = Callable[[pathlib.Path, float], None]


def kafka_clients() -> pathlib.Path:
    """The program of franz-go and sarama. Skips the test where it cannot be built."""
    return _built_as_it_is("kafka-go", KAFKA_SOURCE)


def registry_clients() -> pathlib.Path:
    """The program of two schema registry clients, one of which needs C. Skips the test where it cannot be built."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    return _built_as_it_is("registry-go", REGISTRY_SOURCE, {"CGO_ENABLED": "1"})


def rocketmq_client() -> pathlib.Path:
    """The program of RocketMQ's Go client. Skips the test where it cannot be built."""
    return _built_as_it_is("rocketmq-go", ROCKETMQ_SOURCE)


def rocketmq_example(name: str) -> pathlib.Path:
    """A program of rocketmq-client-go's own examples, unchanged. Skips the test where it cannot be built."""
    files = _sources(ROCKETMQ_EXAMPLES)

    def build(folder: pathlib.Path, deadline_s: float) -> None:
        for file in files:
            shutil.copy(file, folder)
        _go(["build", "-o", "built", f"github.com/apache/rocketmq-client-go/v2/examples/{name}"], folder, deadline_s)

    return _once_built(f"rocketmq-go/{name}", b"".join(file.read_bytes() for file in files), build)


def grpc_client(proto: pathlib.Path) -> pathlib.Path:
    """The gRPC client with stubs of `proto` in its package `shop`. Skips the test where it cannot be built."""
    files = [*_sources(GRPC_SOURCE), proto]

    def build(folder: pathlib.Path, deadline_s: float) -> None:
        (folder / "shop").mkdir()
        for file in files:
            shutil.copy(file, folder)
        tools = folder.parent / "bin"
        for plugin in PLUGINS:
            _go(["install", plugin], folder.parent, deadline_s, {"GOBIN": str(tools)})
        _generate(folder, proto.name, tools)
        _go(["build", "-o", "built", "."], folder, deadline_s)

    return _once_built("grpc-go", b"".join(file.read_bytes() for file in files) + repr(PLUGINS).encode(), build)


class Ahead:
    """Builds all programs in the background, until it is stopped."""

    def __init__(self) -> None:
        environment = {**os.environ, "GOMAXPROCS": "1", "PYTHONPATH": python_path()}
        command = ["nice", "-n", "19", sys.executable, "-m", "tests.support.golang"]
        null = subprocess.DEVNULL
        self._process = subprocess.Popen(
            command, env=environment, cwd=ROOT, stdin=null, stdout=null, stderr=null, start_new_session=True
        )

    @staticmethod
    def is_possible() -> bool:
        return bool(shutil.which("go") and shutil.which("nice"))

    def stop(self) -> None:
        """Ends it and the compilers it has started."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _sources(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(file for file in folder.iterdir() if file.suffix in (".go", ".mod", ".sum"))


def _built_as_it_is(name: str, source: pathlib.Path, environment: Mapping[str, str] | None = None) -> pathlib.Path:
    """The program of a folder of sources."""

    def build(folder: pathlib.Path, deadline_s: float) -> None:
        _go(["build", "-o", str(folder / "built"), "."], source, deadline_s, environment)

    return _once_built(name, b"".join(file.read_bytes() for file in _sources(source)), build)


def _once_built(name: str, content: bytes, build: Build) -> pathlib.Path:
    """`build` makes the file `built` in the folder it is given; that is renamed when it is whole."""
    if not shutil.which("go"):
        pytest.skip("go is not installed")
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "hutong-compat" / name
    folder = cache / hashlib.sha256(content).hexdigest()[:16]
    program = folder / "client"
    if program.exists():
        return program
    deadline_s = time.monotonic() + BUILD_S_MAX
    with _locked(cache, deadline_s):
        if not program.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            build(folder, deadline_s)
            (folder / "built").rename(program)
    return program


@contextlib.contextmanager
def _locked(cache: pathlib.Path, deadline_s: float) -> Iterator[None]:
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        try:
            until(lambda: _has_taken(lock), deadline_s=deadline_s - time.monotonic(), between_s=0.1)
        except AssertionError:
            pytest.skip(f"another process did not build it within {BUILD_S_MAX:g} s")
        yield


def _has_taken(lock: IO[str]) -> bool:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


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


def main() -> None:
    """Builds everything; what cannot be built is left to the test that needs it, which says why."""
    with contextlib.suppress(pytest.skip.Exception, AssertionError):
        kafka_clients()
    with contextlib.suppress(pytest.skip.Exception, AssertionError):
        rocketmq_client()
    with contextlib.suppress(pytest.skip.Exception, AssertionError, ImportError), tempfile.TemporaryDirectory() as name:
        proto = pathlib.Path(name) / "compat_shop.proto"
        print_proto("Shop", proto)
        grpc_client(proto)


if __name__ == "__main__":
    main()
