"""The snippets of docs/bus.md run as they stand."""

import ast
import asyncio
import inspect
import re
from pathlib import Path

import pytest

from hutong.bus import EventBus
from hutong.runtime.runtime import Runtime

PAGE = Path(__file__).parents[3] / "docs" / "bus.md"
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: snippet.split("\n", 1)[0][:40])
async def test_a_snippet_runs(bus: EventBus, runtime: Runtime, snippet: str) -> None:
    code = compile(snippet, str(PAGE), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    ended = eval(code, {"bus": bus, "runtime": runtime, "asyncio": asyncio})
    if inspect.isawaitable(ended):
        await ended


def test_the_page_has_snippets() -> None:
    assert len(SNIPPETS) >= 8
