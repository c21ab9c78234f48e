"""The import graph of the running Python's standard library, read from its source with `ast`.

Strategy: each module's import statements, at any depth of its source, become edges to the modules that they name; a
name taken from a package counts as the submodule when there is one. An edge appears once per importing module. Test
packages are left out: they import everything and are not installed everywhere.

Knows nothing of topics.
"""

import ast
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

LEFT_OUT = frozenset({"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "__pycache__"})

Edge = tuple[str, str]


def standard_library() -> Path:
    return Path(sysconfig.get_paths()["stdlib"])


def modules(folder: Path) -> dict[str, Path]:
    """Dotted name → source file of every module below `folder`, in the order of their names."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        if LEFT_OUT.isdisjoint(parts) and all(part.isidentifier() for part in parts):
            found[".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)] = path
    return found


def edges(folder: Path) -> Iterator[Edge]:
    """(importing module, imported module), each once. A file that does not parse has no edges."""
    sources = modules(folder)
    known = frozenset(sources) | frozenset(sys.stdlib_module_names)
    for name, path in sources.items():
        tree = _parsed(path)
        if tree is not None:
            is_package = path.name == "__init__.py"
            yield from ((name, target) for target in sorted(_targets(tree, name, is_package, known)))


def _parsed(path: Path) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old escapes in the library's own strings
            return ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return None


def _targets(tree: ast.Module, module: str, is_package: bool, known: frozenset[str]) -> set[str]:
    targets: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            targets.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, module, is_package)
            if base is not None:
                targets.update(_named(base, alias.name, known) for alias in node.names)
    return {target for target in targets if target in known}


def _absolute(node: ast.ImportFrom, module: str, is_package: bool) -> str | None:
    """The module a `from ... import` names, relative dots resolved (PEP 328); None where they leave the top."""
    if not node.level:
        return node.module
    ancestors = module.split(".")
    kept = len(ancestors) - node.level + (1 if is_package else 0)
    if kept < 1:
        return None
    return ".".join([*ancestors[:kept], *([node.module] if node.module else [])])


def _named(base: str, name: str, known: frozenset[str]) -> str:
    submodule = f"{base}.{name}"
    return submodule if submodule in known else base
