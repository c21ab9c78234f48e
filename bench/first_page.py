"""The console's first page in a browser: `python -m bench first-page [--loads 20]`, needs playwright and Chromium.

Strategy: a node with a console and some topics. Chromium opens each page in a context of its own, which has nothing
kept (first), and then again in the same context (again). The time is from the end of the index's answer to the page's
heading, navigation and content, when nothing of it is being loaded any more. An observer in the page takes it.
"""

import argparse
import pathlib
import shutil
import statistics
from collections.abc import Sequence
from contextlib import ExitStack

from rich.console import Console
from rich.table import Table

from bench.processes import ReadyProcess
from bench.raw_client import create_topic
from bench.targets import hutong_command, scratch_folder

PAGES = ("/", "/topics", "/groups", "/nodes")
TOPICS = 20
_OBSERVER = """
(() => {
  globalThis.usable = new Promise((done) => {
    const look = () => {
      const is_there = document.querySelector("nav.nav") && document.querySelector("main h1");
      const is_complete = document.querySelector("main .view") && !document.querySelector(".loading");
      if (is_there && is_complete) done(performance.now());
    };
    new MutationObserver(look).observe(document, { childList: true, subtree: true });
  });
})()
"""
_TIME_MS = "usable.then((at_ms) => at_ms - performance.getEntriesByType('navigation')[0].responseEnd)"


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench first-page", description=__doc__)
    parser.add_argument("--loads", type=int, default=20, help="of each page, first and again")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    options = arguments(words)
    with ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(scratch_folder(None)))
        command = [*hutong_command(folder / "data"), "--console", "127.0.0.1:0"]
        node = stack.enter_context(ReadyProcess(command, log_path=str(folder / "node.log")))
        for number in range(TOPICS):
            create_topic(node.fields["kafka"], f"topic-{number}", records=0)
        table = Table(
            "page", "first: median ms", "fastest", "again: median ms", "fastest", title="until a page is usable"
        )
        for path, first, again in _measured(f"http://{node.fields['console']}", options.loads):
            figures = (statistics.median(first), min(first), statistics.median(again), min(again))
            table.add_row(path, *(f"{figure:.0f}" for figure in figures))
    Console().print(table)
    return 0


def _measured(url: str, loads: int) -> list[tuple[str, list[float], list[float]]]:
    from playwright.sync_api import sync_playwright

    found = []
    with sync_playwright() as playwright:
        executable = shutil.which("chromium") or "chromium"
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-gpu"])
        for path in PAGES:
            first, again = list[float](), list[float]()
            for _ in range(loads):
                context = browser.new_context(viewport={"width": 1280, "height": 800})
                context.add_init_script(_OBSERVER)
                for times in (first, again):
                    page = context.new_page()
                    page.goto(url + path)
                    times.append(float(page.evaluate(_TIME_MS)))
                    page.close()
                context.close()
            found.append((path, first, again))
        browser.close()
    return found
