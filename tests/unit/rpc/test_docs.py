"""The snippets of docs/rpc.md and docs/rpc-callbacks.md run as they stand, one after the other."""

import ast
import inspect
import re
from pathlib import Path

import pytest

from hutong.rpc import Rpc

DOCS = Path(__file__).parents[3] / "docs"
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("name", "count"), [("rpc.md", 8), ("rpc-callbacks.md", 2)])
async def test_the_snippets_run(rpc: Rpc, name: str, count: int) -> None:
    names = {"rpc": rpc, "__name__": "docs"}
    snippets = SNIPPET.findall((DOCS / name).read_text())
    for snippet in snippets:
        ended = eval(compile(snippet, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        if inspect.isawaitable(ended):
            await ended
    assert len(snippets) >= count
