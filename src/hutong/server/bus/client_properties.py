"""A file of a Kafka client's properties, as librdkafka names them: one `name=value` a line.

Strategy: properties that would run programs or load code are refused, and no value is ever shown.

Knows nothing of what the properties mean.
"""

import re
from pathlib import Path
from typing import Final

from hutong.foundation.errors import ExitCode, UsageError

FILE_BYTES_MAX: Final = 64 * 1024
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_RUNS_CODE: Final = frozenset(
    ("plugin.library.paths", "sasl.kerberos.kinit.cmd", "ssl.engine.location", "ssl.providers")
)


def read(path: Path) -> dict[str, str]:
    """The properties of a file. Raises UsageError, which shows no value."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(
            f"Cannot read the client's configuration {path}: {error.strerror}.", ExitCode.NOINPUT
        ) from None
    if len(data) > FILE_BYTES_MAX:
        raise UsageError(f"{path} is larger than {FILE_BYTES_MAX} bytes.", ExitCode.CONFIG)
    properties: dict[str, str] = {}
    for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not _NAME.fullmatch(name):
            raise UsageError(f"Line {number} of {path} is no property; write name=value.", ExitCode.CONFIG)
        if name in _RUNS_CODE:
            raise UsageError(f"{path} has {name}, which runs or loads programs; leave it out.", ExitCode.CONFIG)
        if name == "sasl.jaas.config":
            raise UsageError(
                f"{path} has sasl.jaas.config, which only Java reads; write sasl.username and sasl.password.",
                ExitCode.CONFIG,
            )
        properties[name] = value
    return properties
