"""The house rules that a machine can check: sizes, openings, and pages that must agree with the code."""

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LINES_MAX = 500
FUNCTION_LINES_MAX = 70
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_a_module_opens_with_a_docstring_and_keeps_its_size(path: Path) -> None:
    text = path.read_text()
    assert not text.strip() or ast.get_docstring(ast.parse(text)), "the opening says the strategy and what is not known"
    assert text.count("\n") <= LINES_MAX
    long = [node.name for node in functions(path) if (node.end_lineno or 0) - node.lineno >= FUNCTION_LINES_MAX]
    assert long == []


def test_every_dependency_has_its_reason() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text()
    told = set(re.findall(r"^\| ([a-z0-9-]+) \|", page, re.MULTILINE))
    table = project()
    metadata = table["project"]
    assert isinstance(metadata, dict)
    groups = table["dependency-groups"]
    assert isinstance(groups, dict)
    optional = metadata["optional-dependencies"]
    lines = list(chain(metadata["dependencies"], *optional.values(), *groups.values()))
    assert told == {re.split(r"[<>=\[ ]", line)[0] for line in lines}


def test_every_setting_is_read_by_the_server() -> None:
    from hutong.server.configuration.settings import all_settings

    own = {"settings.py", "config.py"}
    server = "".join(path.read_text() for path in (ROOT / "src/hutong/server").rglob("*.py") if path.name not in own)
    server += (ROOT / "src/hutong/cli/node/serve.py").read_text()
    unread = [setting.name for setting in all_settings() if not re.search(rf"\.{setting.key}\b", server)]
    assert unread == [], "a setting without effect misleads its user"


def test_every_page_is_in_the_table_of_contents() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    folder = ROOT / "docs"
    paths = [*folder.glob("*.md"), *folder.glob("essays/*.md")]
    pages = {path.relative_to(folder).with_suffix("").as_posix() for path in paths} - {"index"}
    assert pages == set(re.findall(r"^([a-z/-]+)$", index, re.MULTILINE))


def test_the_table_of_contents_has_its_groups() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    assert re.findall(r"^:caption: (.*)$", index, re.MULTILINE) == [
        "Start here",
        "Kafka clients",
        "RocketMQ clients",
        "Event bus and RPC",
        "Pipelines",
        "Run it",
        "How it works",
        "Reference",
    ]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_links_between_files_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", (ROOT / page).read_text())
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_files_to_begin_with_exist_and_are_few() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("## Where to begin")[2].partition("\n[ARCH")[0]
    rows = [re.findall(r"`([\w/]+\.py)`", row) for row in table.splitlines() if row.startswith("| ")][1:]
    assert [name for row in rows for name in row if not (ROOT / "src/hutong" / name).exists()] == []
    assert all(1 <= len(row) <= 3 for row in rows)


def test_news_fragments_are_of_a_known_kind() -> None:
    tool = project()["tool"]
    assert isinstance(tool, dict)
    kinds = {kind["directory"] for kind in tool["towncrier"]["type"]}
    fragments = [path.name for path in (ROOT / "changes").glob("*.md")]
    assert [name for name in fragments if name.split(".")[-2] not in kinds] == []


@pytest.mark.parametrize(("script", "shell"), [(".ci/run", "bash"), (".ci/get-uv", "sh"), (".ci/check-pages", "sh")])
def test_scripts_parse(script: str, shell: str) -> None:
    assert subprocess.run([shell, "-n", str(ROOT / script)], check=False).returncode == 0


@pytest.mark.parametrize("target", ["demo", "test", "lint", "check-pages", "bench", "docs", "compat", "help"])
def test_the_promised_targets_exist(target: str) -> None:
    done = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", target], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
