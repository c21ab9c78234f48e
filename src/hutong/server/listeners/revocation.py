"""The files with revocation lists that a setting names: one file, or those of a folder.

Strategy: each is read and checked before OpenSSL is given it. Their number and size are bounded, since loading takes
about 30 ms for each MiB and happens on the loop.

Knows nothing of TLS.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hutong.foundation.errors import ExitCode, ProtocolError, UsageError
from hutong.security.revocation_lists import next_update_ms, revocation_lists_in

CRL_FILES_MAX: Final = 1_000
CRL_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of all files together: 270,000 revoked certificates."""
_SUFFIXES: Final = frozenset((".pem", ".crl"))


def crl_files(place: Path | None) -> tuple[Path, ...]:
    """The file, or those of the folder in their order; empty where a folder has none or cannot be read."""
    if place is None:
        return ()
    if not place.is_dir():
        return (place,)
    try:
        return tuple(sorted(file for file in place.iterdir() if file.suffix in _SUFFIXES and not _is_hidden(file)))
    except OSError:
        return ()


def check_crls(place: Path, files: Sequence[Path]) -> int | None:
    """Wall time at which the first list expires; None for never. Raises UsageError for unusable files."""
    if not files:
        raise UsageError(
            f"The folder {place} has no readable revocation list (*.pem or *.crl); add one.", ExitCode.CONFIG
        )
    if len(files) > CRL_FILES_MAX:
        raise UsageError(f"The folder {place} has more than {CRL_FILES_MAX} revocation lists.", ExitCode.CONFIG)
    ends: dict[bytes, int | None] = {}
    room = CRL_BYTES_MAX
    for file in files:
        data = _read(file, room)
        room -= len(data)
        for issuer, end_ms in _ends_in(file, data):
            # OpenSSL goes by the list that is valid, where an issuer has several.
            before_ms = ends.get(issuer, 0)
            ends[issuer] = None if end_ms is None or before_ms is None else max(before_ms, end_ms)
    return min((end_ms for end_ms in ends.values() if end_ms is not None), default=None)


def _read(file: Path, room: int) -> bytes:
    try:
        with file.open("rb") as opened:
            data = opened.read(room + 1)
    except OSError as error:
        raise _unusable(file, str(error.strerror)) from None
    if len(data) > room:
        raise _unusable(file, f"all lists together have more than {CRL_BYTES_MAX} bytes")
    return data


def _ends_in(file: Path, data: bytes) -> list[tuple[bytes, int | None]]:
    try:
        return [next_update_ms(each) for each in revocation_lists_in(data)]
    except ProtocolError as error:
        raise _unusable(file, str(error)) from None


def _unusable(file: Path, reason: str) -> UsageError:
    return UsageError(f"Cannot use the revocation list {file}: {reason}.", ExitCode.CONFIG)


def _is_hidden(file: Path) -> bool:
    """Files that are being written, and those of Kubernetes' mounts, begin with a dot."""
    return file.name.startswith(".")
