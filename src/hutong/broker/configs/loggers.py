"""The levels of the node's loggers under Kafka's names for them (KIP-412); they last until the node stops.

Knows nothing of requests, nor of where log lines go.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from hutong.foundation.errors import Refused
from hutong.wire.kafka.error_codes import ErrorCode

ROOT: Final = "root"
_PREFIX: Final = "hutong"
_LEVELS: Final[Mapping[str, int]] = {
    "TRACE": logging.DEBUG,  # Python has no finer level
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_NAMES: Final = {level: name for name, level in _LEVELS.items()}


def levels() -> dict[str, str]:
    """Every logger of the node with the level that counts for it."""
    names = sorted(name for name in logging.root.manager.loggerDict if name.split(".")[0] == _PREFIX)
    return {ROOT: _shown(logging.root)} | {name: _shown(logging.getLogger(name)) for name in names}


def change(changes: Mapping[str, str | None], validate_only: bool) -> None:
    """Set levels; None takes one back, so that the logger above counts. All, or none: raises Refused."""
    for name, level in changes.items():
        if name not in levels():
            raise Refused(ErrorCode.INVALID_CONFIG, f"There is no logger {name[:100]}.")
        if level is None and name == ROOT:
            raise Refused(ErrorCode.INVALID_REQUEST, "The root logger keeps a level.")
        if level is not None and level not in _LEVELS:
            raise Refused(ErrorCode.INVALID_CONFIG, f"A level is one of {', '.join(_LEVELS)}.")
    if not validate_only:
        for name, level in changes.items():
            logger = logging.root if name == ROOT else logging.getLogger(name)
            logger.setLevel(logging.NOTSET if level is None else _LEVELS[level])


def _shown(logger: logging.Logger) -> str:
    """The name of the level, or of the next one above it."""
    effective = logger.getEffectiveLevel()
    return next((_NAMES[level] for level in sorted(_NAMES) if level >= effective), "FATAL")
