"""Targets for what people write: the configuration file and its settings' values."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.target import MEBIBYTE, Target

from hutong.foundation.errors import UsageError
from hutong.server.configuration.loader import load
from hutong.server.configuration.settings import all_settings
from hutong.server.listeners.plans import planned

_FOLDER = tempfile.TemporaryDirectory(prefix="hutong-fuzz-")


def read_file(data: bytes) -> object:
    path = Path(_FOLDER.name) / "hutong.toml"
    path.write_bytes(data)
    return list(load(path, {}).rows())


def read_setting(data: bytes) -> object:
    """`NAME=VALUE`, as a flag and as a variable have it."""
    name, _, text = data.decode(errors="surrogateescape").partition("=")
    found = load(None, {}, {name: text})
    return list(found.rows()), planned(found.settings.kafka)


def files() -> Iterator[bytes]:
    yield b'[node]\ndata_dir = "/tmp/x"\n[kafka]\nlisten = "127.0.0.1:9092"\n[log]\nretention_ms = 60_000\n'
    yield b'[bridge]\npermit_in = ["a.*", "b"]\n[sockjs]\nlisten = "[::1]:1"\nsession_cookie = true\n'


def settings() -> Iterator[bytes]:
    yield b"kafka.listeners=PLAINTEXT://127.0.0.1:9092 SASL_SSL://[::1]:9093"
    yield b"kafka.listener_protocols=INSIDE:PLAINTEXT"
    for setting in all_settings():
        default = setting.default
        yield f"{setting.name}={default if default is not None else '127.0.0.1:1'}".encode()


TARGETS = [
    Target("config-file", read_file, files, (UsageError,), memory_base=8 * MEBIBYTE, memory_factor=2_000, slowness=6),
    Target(
        "config-value", read_setting, settings, (UsageError,), memory_base=8 * MEBIBYTE, memory_factor=2_000, slowness=6
    ),
]
