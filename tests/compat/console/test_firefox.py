"""The console in stock Firefox: every page in both themes, and the main tasks of some, by keyboard and mouse.

Playwright drives no stock Firefox. Firefox speaks WebDriver BiDi itself, and puppeteer-core speaks it, too.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from tests.compat.console.shop_program import running_shop
from tests.compat.console.test_dead_letters_pages import fill, letters
from tests.compat.console.test_every_page import PATHS
from tests.compat.console.test_groups_pages import commit
from tests.compat.report import cells
from tests.support.npm import node_modules
from tests.support.versions import first_version

from hutong.testing import EmbeddedNode

pytestmark = [pytest.mark.compat, pytest.mark.thorough]
VERSION: Final = "24.43.1"
SCRIPT: Final = Path(__file__).with_name("firefox.mjs")
PARTS: Final = re.findall(r'^  (?:async )?"?([a-z ]+?)"?(?:\(page\) \{|: pagesIn)', SCRIPT.read_text(), re.MULTILINE)


def firefox() -> str:
    """A Firefox of the system. Skips the test where there is none."""
    found = shutil.which("firefox-esr") or shutil.which("firefox")
    if found is None:
        pytest.skip("no firefox is installed")
    return found


@pytest.fixture(scope="module")
def outcomes(node: EmbeddedNode, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What was wrong with each part."""
    commit(node, "in.firefox", 10, 20)
    fill(node, "in.firefox.dead", letters("in.firefox.dead", 3))
    home = tmp_path_factory.mktemp("home")
    given = {
        "modules": str(node_modules(f"puppeteer-core-{VERSION}", f"puppeteer-core@{VERSION}")),
        "firefox": firefox(),
        "console": node.console_url,
        "paths": PATHS,
    }
    with running_shop(tmp_path_factory.mktemp("shop")) as shop:
        command = ["node", str(SCRIPT), json.dumps({**given, "shop": shop})]
        # Firefox writes into its home, and refuses one that is another user's.
        environment = {**os.environ, "HOME": str(home)}
        ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300, env=environment)
    return dict(json.loads(line) for line in ran.stdout.splitlines())


@cells("Firefox", lambda: first_version(firefox()))("console-pages")
@pytest.mark.parametrize("part", PARTS)
def test_in_firefox(outcomes: dict[str, list[str]], part: str) -> None:
    assert outcomes[part] == []
