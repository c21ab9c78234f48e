"""Authorizers for handlers that are tried without a node."""

from hutong.broker.rights.authorization import Authorizer
from hutong.foundation.clock import SystemClock
from hutong.security.decisions import Decisions


def everybody_may() -> Authorizer:
    """Nothing is asked."""
    return Authorizer(Decisions(), SystemClock(), is_on=False)
