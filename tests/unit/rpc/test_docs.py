"""The snippets of docs/rpc.md run as they stand, one after the other."""

import ast
import inspect
import re
from pathlib import Path

from hutong.rpc import Rpc

PAGE = Path(__file__).parents[3] / "docs" / "rpc.md"
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


async def test_the_snippets_run(rpc: Rpc) -> None:
    names = {"rpc": rpc, "__name__": "docs"}
    for snippet in SNIPPETS:
        ended = eval(compile(snippet, str(PAGE), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        if inspect.isawaitable(ended):
            await ended
    assert len(SNIPPETS) >= 8
