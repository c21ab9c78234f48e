"""What is meant to differ from Apache Kafka, as the rows of a table in docs/compatibility.md.

python -m tests.compat.differential.page      writes them there
"""

import pathlib
from typing import Final

from tests.compat.differential.differences import MEANT

PAGE: Final = pathlib.Path(__file__).parents[3] / "docs" / "compatibility.md"
BEGIN: Final = "<!-- differences: made by tests/compat/differential/page.py -->"
END: Final = "<!-- end of the differences -->"


def rows() -> str:
    """One row for each reason, with the APIs that it holds for."""
    apis: dict[str, list[str]] = {}
    for meant in MEANT:
        name = "all" if meant.apis == ".*" else meant.apis.strip("()").replace("|", ", ")
        names = apis.setdefault(meant.why, [])
        if name not in names:
            names.append(name)
    lines = ["| Request | Difference |", "|---|---|"]
    lines += [f"| {', '.join(names)} | {why} |" for why, names in apis.items()]
    return "\n".join(lines)


def page_with_rows(page: str) -> str:
    """The page with the table between its marks. Raises ValueError where they are missing."""
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError("the page has no place for the differences")
    return f"{before}{BEGIN}\n\n{rows()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page_with_rows(PAGE.read_text()))
