"""Property tests without a time limit per example: the first pays for compiling, any may share its CPU."""

from hypothesis import settings

unhurried = settings(deadline=None)
