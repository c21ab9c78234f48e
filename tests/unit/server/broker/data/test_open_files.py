"""Open files shared out between journals and connections."""

import pytest

from hutong.server.broker.data.open_files import connections_max, segments_open_max

JOURNALS, WANTED = 8, 64


@pytest.mark.parametrize(
    ("files_max", "segments", "connections"),
    [(64, 4, 22), (256, 4, 118), (1024, 24, 694), (4096, 64, 3446), (1 << 20, 64, (1 << 20) - 650)],
)
def test_journals_and_connections_have_their_shares(files_max: int, segments: int, connections: int) -> None:
    assert segments_open_max(files_max, JOURNALS, WANTED) == segments
    assert connections_max(files_max, 10, JOURNALS, segments) == connections


def test_somebody_can_always_connect() -> None:
    assert connections_max(20, 500, JOURNALS, 4) == 1
