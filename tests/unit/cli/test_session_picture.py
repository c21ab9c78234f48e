"""The picture of a terminal in the README is what the commands print."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

FIGURES = Path(__file__).parents[3] / "docs" / "figures"


def session() -> ModuleType:
    specification = spec_from_file_location("session", FIGURES / "session.py")
    assert specification is not None
    assert specification.loader is not None
    module = module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_picture_shows_what_the_commands_print_today() -> None:
    module = session()
    drawn, shown = module.drawn(module.recorded()), (FIGURES / "session.svg").read_text()
    # Sizes of batches depend on how many records were sent at once.
    assert re.sub(r"\d+", "N", drawn) == re.sub(r"\d+", "N", shown), "run: make pictures"
    ET.fromstring(shown)


def test_the_other_picture_of_the_readme_is_well_formed() -> None:
    ET.fromstring((FIGURES / "architecture.svg").read_text())
