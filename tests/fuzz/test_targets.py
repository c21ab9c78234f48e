"""Every decoder on its seeds, on what fuzzing has found before, and on a few hundred mutations of both.

TEST_FUZZ=N tries N mutations of each target instead; `make fuzz` goes on for as long as one likes.
"""

import os
from random import Random

import pytest
from tests.fuzz.corpus import kept
from tests.fuzz.mutate import mutations
from tests.fuzz.target import Target, check
from tests.fuzz.targets import TARGETS

MUTATIONS = int(os.environ.get("TEST_FUZZ", "300"))
MEASURED_EACH = 10  # measuring memory makes an input several times slower


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_only_the_errors_it_names_get_out_of_a_decoder(target: Target) -> None:
    seeds = [*target.seeds(), *kept(target.name)]
    for number, data in enumerate(seeds):
        check(target, data, with_memory=number < 20)
    random = Random(target.name)
    for number, data in enumerate(mutations(seeds, MUTATIONS, random)):
        try:
            check(target, data, with_memory=number % MEASURED_EACH == 0)
        except BaseException as error:
            error.add_note(f"{target.name}: the input is {data.hex()}")
            raise


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_seeds_are_good_ones(target: Target) -> None:
    """At least one is decoded: else mutations would only ever meet the first check."""
    for data in target.seeds():
        try:
            target.decode(data)
        except target.errors:
            continue
        return
    pytest.fail("no seed is decoded")
