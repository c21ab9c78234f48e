"""The page names just those differences from Apache Kafka that the comparison lets pass."""

from tests.compat.differential.page import PAGE, page_with_rows


def test_the_page_tells_every_difference_that_is_meant() -> None:
    page = PAGE.read_text()
    assert page == page_with_rows(page), "run python -m tests.compat.differential.page"
