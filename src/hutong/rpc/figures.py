"""Counters of a service: per method and binding, in the binding's context, so that no lock is needed.

Knows no transport.
"""

from collections.abc import Iterable

from msgspec import Struct


class MethodFigures(Struct, eq=False, gc=False):
    """Of one method of one binding. `in_flight` = `requests_total` - `ended_total`."""

    requests_total: int = 0
    ended_total: int = 0
    errors_total: int = 0  # of those that ended: with any failure
    processing_us_total: int = 0  # from the call's arrival in its context to its outcome
    processing_us_max: int = 0
    last_error: str = ""


class MethodStatistics(Struct, frozen=True):
    """Figures of one method, of all bindings at an address together."""

    name: str
    requests_total: int
    errors_total: int
    in_flight: int
    processing_ms_total: float
    processing_ms_average: float
    processing_ms_max: float
    last_error: str = ""


class ServiceStatistics(Struct, frozen=True):
    """Figures of one address."""

    address: str
    name: str
    version: str
    instances: int
    unknown_actions_total: int
    methods: list[MethodStatistics]


def summed(name: str, figures: Iterable[MethodFigures]) -> MethodStatistics:
    every = list(figures)
    ended = sum([one.ended_total for one in every])
    spent_us = sum([one.processing_us_total for one in every])
    return MethodStatistics(
        name,
        sum([one.requests_total for one in every]),
        sum([one.errors_total for one in every]),
        sum([one.requests_total - one.ended_total for one in every]),
        spent_us / 1_000,
        spent_us / 1_000 / ended if ended else 0.0,
        max([one.processing_us_max for one in every], default=0) / 1_000,
        next((one.last_error for one in every if one.last_error), ""),
    )
