"""Sphinx settings. Tables of settings, commands and protocol versions are made from the code (see extensions/)."""

import re
import sys
from importlib import import_module
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
autodoc_default_options = {"inherited-members": "Exception"}
autodoc_typehints_format = "short"
add_module_names = False

_GUIDES = "".join(path.read_text() for path in Path(__file__).parent.rglob("*.md") if path.name != "api.md")


def _skip_internals(app: object, what: str, name: str, member: object, skip: bool, options: object) -> bool | None:
    """Leave out methods that no page mentions: other packages of Hutong call them, programs do not."""
    if not callable(member) or isinstance(member, type):
        return None
    is_ours = str(getattr(member, "__module__", "")).startswith("hutong")
    is_mentioned = re.search(rf"(?:\.|`|\b(?:def|await) ){re.escape(name)}\b", _GUIDES) is not None
    return None if is_ours and is_mentioned else True


def _as_code(found: re.Match[str]) -> str:
    return f"``{' '.join(found[1].split())}``" + (f"\\ {found[2]}" if found[2] else "")


def _as_restructured_text(app: object, what: str, name: str, member: object, options: object, lines: list[str]) -> None:
    """Docstrings are plain text: words in backticks are code, and so are indented lines."""
    text = re.sub(r"(?<!`)`([^`]+)`(?!`)(\w?)", _as_code, "\n".join(lines))
    lines.clear()
    was_indented = False
    for line in text.split("\n"):
        is_indented = line.startswith("    ") or (was_indented and not line.strip())
        if is_indented and not was_indented:
            lines += ["", "::", ""]
        elif was_indented and not is_indented:
            lines.append("")
        lines.append(line)
        was_indented = is_indented


def setup(app: object) -> None:
    # These packages import their names on demand; autodoc sees only names that are there.
    packages = ("handlers", "reactor", "remoting", "rpc", "runtime", "testing")
    for package in (import_module(f"hutong.{name}") for name in packages):
        for name in package.__all__:
            setattr(package, name, getattr(package, name))
    app.connect("autodoc-skip-member", _skip_internals)  # type: ignore[attr-defined]
    app.connect("autodoc-process-docstring", _as_restructured_text)  # type: ignore[attr-defined]
