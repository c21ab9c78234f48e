"""Settings of a node as its rooms take them."""

import dataclasses

import pytest

from hutong.server.configuration import translate
from hutong.server.configuration.sections.facts import MEBIBYTE
from hutong.server.configuration.settings import Settings

GROUP = "days"


def settings_of(coordinator: str | None, slots: int) -> Settings:
    settings = Settings()
    cluster = dataclasses.replace(settings.cluster, coordinator=coordinator, slots=slots)
    return dataclasses.replace(settings, cluster=cluster)


@pytest.mark.parametrize(
    ("coordinator", "slots", "cached_bytes_max"),
    [
        (None, 4, 32 * MEBIBYTE),
        ("zk://127.0.0.1:2181", 1, 32 * MEBIBYTE),
        ("zk://127.0.0.1:2181", 4, 8 * MEBIBYTE),
        pytest.param("zk://127.0.0.1:2181", 64, 4 * MEBIBYTE, id="one region at least"),
    ],
)
def test_the_slots_of_a_cluster_share_the_cache(coordinator: str | None, slots: int, cached_bytes_max: int) -> None:
    made = translate.journal_settings(settings_of(coordinator, slots), GROUP)
    assert made.cached_bytes_max == cached_bytes_max
