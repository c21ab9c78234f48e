"""The pictures of README and docs: each page is complete when it is taken, and the files are there."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from tests.support.npm import chromium

pytestmark = [pytest.mark.compat, pytest.mark.thorough]
FIGURES = Path(__file__).parents[3] / "docs" / "figures"


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("console_pictures", FIGURES / "console.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pictures_are_taken_of_the_pages(tmp_path: Path) -> None:
    module = script()
    taken = module.take_all(tmp_path, chromium(), watch_ms=0)
    assert [picture.stem for picture in taken] == list(module.PAGES)
    for picture in taken:
        data = picture.read_bytes()
        assert data.startswith(b"\x89PNG")
        # The header of a PNG (RFC 2083, 4.1.1): width and height.
        size = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
        assert size == (module.WIDTH, module.HEIGHTS.get(picture.stem, module.HEIGHT))
        assert (FIGURES / picture.name).is_file()
