"""What our encoder writes our decoder reads, for every API and version."""

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.wire.messages import EVERY_MESSAGE, decode, encode, fill, flat, name_of


@pytest.mark.parametrize("message", EVERY_MESSAGE, ids=name_of)
@given(random=st.randoms(use_true_random=False))
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_is_written_is_read(message: tuple[type[Any], int], random: Random) -> None:
    table, version = message
    written = fill(table, version, random)
    read = decode(table, version, encode(written, version))
    assert flat(read, version) == flat(written, version)


@pytest.mark.parametrize("message", EVERY_MESSAGE, ids=name_of)
def test_defaults_survive(message: tuple[type[Any], int]) -> None:
    table, version = message
    assert decode(table, version, encode(table(), version)) == table()
