"""The last step of the tutorial as a reader does it: its program and its page, in an empty folder."""

import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Final

from bench.targets import free_port
from tests.support.npm import chromium, node_modules

HERE: Final = pathlib.Path(__file__).parent
PAGE: Final = HERE.parents[1] / "docs" / "tutorial.md"
PORT: Final = "7001"  # as it stands in the tutorial
DEADLINE_S: Final = 60.0


def listing(name: str, port: int) -> str:
    """A file of the tutorial, on a port that is free here."""
    block = rf"^```{{code-block}} \w+\n:name: {re.escape(name)}\n\n(.*?)^```$"
    found = re.search(block, PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    text: str = found[1]
    assert PORT in text
    return text.replace(PORT, str(port))


def test_the_page_of_the_tutorial_orders_from_its_program(tmp_path: pathlib.Path) -> None:
    modules = node_modules(
        "sockjs-1",
        "vertx3-eventbus-client@3.9.4",
        "sockjs-client@1.6.1",
        "@vertx/eventbus-bridge-client.js@1.0.0",
        "playwright-core@1.61.0",
    )
    browser, port = chromium(), free_port()
    for name in ("shop.py", "shop.html"):
        (tmp_path / name).write_text(listing(name, port))
    with subprocess.Popen([sys.executable, "shop.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as shop:
        try:
            assert shop.stdout is not None
            assert shop.stdout.readline() == f"open at http://127.0.0.1:{port}/eventbus\n"
            command = ["node", str(HERE / "tutorial_page.js"), browser, str(tmp_path / "shop.html"), str(modules)]
            done = subprocess.run(
                [*command, str(tmp_path / "page.png")],
                env={**os.environ, "NODE_PATH": str(modules)},
                capture_output=True,
                text=True,
                check=False,
                timeout=DEADLINE_S,
            )
        finally:
            shop.terminate()
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown == {"answers": ["one espresso, please", "404: we have no tea"], "told": []}
