"""Edges from sources written here, and what must hold for the library of any Python."""

from pathlib import Path

import pytest

from hutong.examples.demo.import_graph import edges, modules, standard_library

SOURCES = {
    "top.py": "import os, sys\nimport os.path\nfrom package import inner, name\nimport not_there\n",
    "package/__init__.py": "from . import inner\nfrom .inner import thing\n",
    "package/inner.py": "def late():\n    from .. import top\n    from ..top import x\n    from . import other\n",
    "package/other.py": "if True:\n    import top\n    import top\n",
    "broken.py": "import os\nthis is no python\n",
    "test/support.py": "import os\n",
    "not-a-module.py": "import os\n",
}


@pytest.fixture
def library(tmp_path: Path) -> Path:
    for name, source in SOURCES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
    return tmp_path


def test_modules_are_named_by_their_place(library: Path) -> None:
    assert list(modules(library)) == ["broken", "package", "package.inner", "package.other", "top"]


def test_edges(library: Path) -> None:
    assert sorted(edges(library)) == [
        ("package", "package.inner"),
        ("package.inner", "package.other"),
        ("package.other", "top"),
        ("top", "os"),
        ("top", "package"),
        ("top", "package.inner"),
        ("top", "sys"),
    ]


def test_the_standard_library_has_its_well_known_edges_each_once() -> None:
    folder = standard_library()
    assert (folder / "asyncio" / "events.py").exists()
    found = list(edges(folder / "asyncio"))
    assert len(found) == len(set(found))
    assert ("base_events", "socket") in found
