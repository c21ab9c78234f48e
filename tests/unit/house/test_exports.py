"""The names that `hutong` exports: all are there, none is loaded before it is asked for, and the page lists them."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import hutong
from hutong.foundation import errors

API = Path(__file__).parents[3] / "docs" / "api.md"


@pytest.mark.parametrize("name", hutong.__all__)
def test_an_exported_name_is_there_and_on_the_page(name: str) -> None:
    assert getattr(hutong, name).__name__ == name
    assert f"`{name}`" in API.read_text() or name == "Node"
    assert name in dir(hutong)


def test_what_the_pages_import_is_on_the_page() -> None:
    pages = "".join(path.read_text() for path in API.parent.glob("*.md"))
    imported = set(re.findall(r"^(?:from|import) (hutong[\w.]*)", pages, re.MULTILINE))
    documented = re.findall(r"^\.\. auto\w+:: (hutong[\w.]*)", API.read_text(), re.MULTILINE)
    assert {name for name in imported if not any(f"{one}.".startswith(f"{name}.") for one in documented)} == set()


def test_the_errors_of_the_tree_are_those_of_its_module() -> None:
    assert hutong.HutongError is errors.HutongError
    assert issubclass(hutong.ReplyError, hutong.HutongError)


def test_nothing_is_loaded_before_it_is_asked_for() -> None:
    program = "import hutong, sys; print(*[name for name in sys.modules if name.startswith('hutong')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["hutong"]


@pytest.mark.parametrize(
    ("name", "not_loaded"),
    [
        ("UsageError", ("hutong.bus", "hutong.rpc", "hutong.server", "asyncio")),
        ("EventBus", ("hutong.rpc", "hutong.server")),
        ("service", ("hutong.bus", "hutong.server", "hutong.remoting")),
        ("connect", ("hutong.server",)),
    ],
)
def test_a_name_loads_its_own_package_alone(name: str, not_loaded: tuple[str, ...]) -> None:
    program = f"from hutong import {name}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert [module for module in not_loaded if module in done.stdout.split()] == []


@pytest.mark.parametrize("package", ["handlers", "reactor", "remoting", "rpc", "runtime", "testing"])
def test_a_package_loads_the_names_that_it_exports(package: str) -> None:
    module = import_module(f"hutong.{package}")
    assert [name for name in module.__all__ if getattr(module, name, None) is None] == []
    assert set(module.__all__) <= set(dir(module))
    with pytest.raises(AttributeError, match=f"module 'hutong.{package}' has no attribute 'nothing'"):
        _ = module.nothing
