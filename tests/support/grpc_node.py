"""Services in a process of their own, and the stubs that protoc generates from their printed `.proto`.

Knows no test.
"""

import importlib.util
import pathlib
import subprocess
import sys
from importlib.resources import files
from types import ModuleType
from typing import Final

from bench.processes import ReadyProcess

SERVICES: Final = "tests.compat.grpc_services"
COMMAND: Final = [sys.executable, "-m", "hutong", "rpc"]
ROOT: Final = pathlib.Path(__file__).resolve().parents[2]


def serving(folder: pathlib.Path, door: str = "grpc") -> ReadyProcess:
    """To be used in `with`; `fields` has HOST:PORT of the door, "grpc" or "listen" (whose field is `rpc`)."""
    command = [*COMMAND, "serve", f"{SERVICES}:bind", f"--{door}", "127.0.0.1:0"]
    return ReadyProcess(command, log_path=str(folder / "services.log"), environment={"PYTHONPATH": python_path()})


def python_path() -> str:
    return ":".join([str(ROOT), *(entry for entry in sys.path if entry)])


def print_proto(protocol: str, file: pathlib.Path, *options: str) -> None:
    """A file with the output of `hutong rpc proto`."""
    command = [*COMMAND, "proto", f"{SERVICES}:{protocol}", *options]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, cwd=ROOT)
    file.write_text(printed.stdout)


def generate(folder: pathlib.Path, file: pathlib.Path, *options: str) -> None:
    """Run protoc, of the package grpcio-tools, in a process of its own."""
    include = files("grpc_tools") / "_proto"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"-I{include}", *options, str(file)]
    subprocess.run(command, check=True, timeout=60, capture_output=True)


def imported(folder: pathlib.Path, name: str) -> ModuleType:
    """A generated module, under its own name: generated modules import each other."""
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
