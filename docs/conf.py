"""Sphinx settings. Tables of settings, commands and protocol versions are made from the code (see extensions/)."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "Hutong"
author = "The Hutong developers"
project_copyright = "The Hutong developers, Apache-2.0"
release = version_of("hutong")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.doctest", "from_code"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "examples"]
html_theme = "furo"
html_title = f"Hutong {release}"
nitpicky = True
# Links between pages are checked; types in signatures are not, since most of them are internal or of other projects.
nitpick_ignore_regex = [("py:.*", ".*")]
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
add_module_names = False
