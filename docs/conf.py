"""Sphinx settings. Tables of settings, commands and protocol versions are made from the code (see extensions/)."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "Hutong"
author = "The Hutong developers"
project_copyright = "The Hutong developers, Apache-2.0"
release = version_of("hutong")
extensions = ["myst_parser", "sphinx.ext.doctest", "from_code"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "examples"]
html_theme = "furo"
html_title = f"Hutong {release}"
nitpicky = True
