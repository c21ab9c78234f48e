"""Settings from one TOML file, then `HUTONG_*`, then flags; the later source wins and is remembered.

Strategy: each source becomes entries (setting, raw value, source); the entries are converted and checked by the
setting's own type and bounds, then put into the dataclasses of `settings`. An unknown key is an error that names the
nearest known one: a misspelt limit that is silently ignored would only be noticed when it is needed.

Knows nothing of the packages that use the settings.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hutong.foundation.errors import ExitCode, UsageError
from hutong.server.bus.node_log import bootstrap_of
from hutong.server.configuration.settings import Address, Setting, Settings, all_settings

__all__ = ["Address", "Effective", "Settings", "load", "parse_address"]

CONFIG_FILE_VARIABLE = "HUTONG_CONFIG"
# Not settings of a node: where the file is, where the other commands find a broker, bridge or services, and what our
# tests read.
OTHER_VARIABLES = (
    "HUTONG_CONFIG",
    "HUTONG_BOOTSTRAP",
    "HUTONG_BRIDGE",
    "HUTONG_CLIENT_CONFIG",
    "HUTONG_RPC",
    "HUTONG_USER_PASSWORD",
)
TEST_VARIABLE_PREFIX = "HUTONG_TEST_"
CONFIG_FILE_BYTES_MAX = 1024 * 1024
WORDS_FOR_TRUE = ("true", "yes", "on", "1")
WORDS_FOR_FALSE = ("false", "no", "off", "0")


@dataclass(frozen=True, slots=True)
class Effective:
    """The settings in force, and for each `section.key` the source that set it ("default" where none did)."""

    settings: Settings
    sources: Mapping[str, str]

    def rows(self) -> Iterator[tuple[Setting, str, str]]:
        """(setting, value as text with secrets redacted, source) in the order of the documentation."""
        for setting in all_settings():
            value = getattr(getattr(self.settings, setting.section), setting.key)
            yield setting, shown_value(setting, value), self.sources[setting.name]


def load(
    config_file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, str | tuple[str, ...]] | None = None,
    flag_source: str = "flag",
) -> Effective:
    """Merge the sources.

    `config_file` defaults to the one named by HUTONG_CONFIG; `flags` maps `section.key` to its text, or to its texts
    where the setting has several; errors name `flag_source` as their origin. Raises UsageError (exit code 66 for an
    unreadable file, 78 for a wrong value or an unknown key).
    """
    environment = os.environ if environment is None else environment
    if config_file is None and environment.get(CONFIG_FILE_VARIABLE):
        config_file = Path(environment[CONFIG_FILE_VARIABLE])
    known = {setting.name: setting for setting in all_settings()}
    entries = [  # a later source wins over an earlier one
        *(_file_entries(config_file, known) if config_file else ()),
        *_environment_entries(environment, known),
        *_flag_entries(flags or {}, known, flag_source),
    ]
    settings, sources = Settings(), dict.fromkeys(known, "default")
    # Sections are frozen, so each value makes a new one: a few dozen copies once, and nobody changes settings later.
    for setting, raw, source in entries:
        section = replace(getattr(settings, setting.section), **{setting.key: convert(setting, raw, source)})
        settings = replace(settings, **{setting.section: section})
        sources[setting.name] = source
    # After all sources: a flag may mend a pair that the file alone has wrong.
    _check_together(settings)
    # Checked by sources and not by values: kafka.listen always has a value, its default.
    if settings.kafka.listeners and sources["kafka.listen"] != "default":
        raise UsageError("kafka.listen and kafka.listeners are both set; leave one of them out.", ExitCode.CONFIG)
    return Effective(settings, sources)


def convert(setting: Setting, raw: object, source: str) -> object:
    """The value in the setting's own type, within its bounds. Raises UsageError."""
    # The parsers below know no names; setting and source are added to their texts here.
    try:
        value = _of_kind(setting.kind, raw)
    except ValueError as error:
        raise UsageError(f"{setting.name} ({source}) {error}.", ExitCode.CONFIG) from None
    facts = setting.facts
    if facts.choices and value not in facts.choices:
        wanted = " or ".join(facts.choices)
        raise UsageError(
            f"{setting.name} ({source}) is {shown_value(setting, value)}; choose {wanted}.", ExitCode.CONFIG
        )
    if facts.minimum is not None and isinstance(value, int) and value < facts.minimum:
        raise UsageError(f"{setting.name} ({source}) is {value}; the least is {facts.minimum}.", ExitCode.CONFIG)
    if facts.maximum is not None and isinstance(value, int) and value > facts.maximum:
        raise UsageError(f"{setting.name} ({source}) is {value}; the most is {facts.maximum}.", ExitCode.CONFIG)
    return value


def parse_address(text: str) -> Address:
    """`HOST:PORT`, `[IPV6]:PORT` or `:PORT` (every interface). Raises ValueError saying what was expected."""
    # A URL has colons, too, and the advice about brackets would mislead.
    if "://" in text:
        from hutong.foundation.addresses import scheme_advice  # late: only to say what went wrong

        raise ValueError(f"is {text!r}; write the address{scheme_advice(text)}")
    host, colon, port = text.strip().rpartition(":")  # the last colon: an IPv6 address has others
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    # Without brackets "::1:9092" could be an address without a port (RFC 3986, section 3.2.2).
    elif ":" in host:
        raise ValueError(f"is {text!r}; write an IPv6 address in brackets, such as [::1]:9092")
    # str.isdigit alone is true for digits of other scripts.
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise ValueError(f"is {text!r}; write HOST:PORT with a port from 0 to 65535")
    return Address(host or "0.0.0.0", int(port))


SourcedValue = tuple[Setting, object, str]
"""A setting, its raw value, and the source that an error names."""


def _file_entries(path: Path, known: Mapping[str, Setting]) -> Iterator[SourcedValue]:
    for section, table in _read_toml(path).items():
        # A key above the first [section] is a plain value, and a setting without its section.
        if not isinstance(table, dict):
            raise _unknown(section, str(path), known)
        for key, raw in table.items():
            name = f"{section}.{key}"
            if name not in known:
                raise _unknown(name, str(path), known)
            yield known[name], raw, str(path)


def _read_toml(path: Path) -> dict[str, Any]:
    import tomllib  # most nodes start without a file, and every import counts towards the time until they are ready

    try:
        with path.open("rb") as file:
            text = file.read(CONFIG_FILE_BYTES_MAX + 1)  # one more, to notice a file that is too large
    # A file that was named must exist: starting with defaults instead would open other ports and folders.
    except OSError as error:
        raise UsageError(f"Cannot read the configuration file {path}: {error.strerror}.", ExitCode.NOINPUT) from None
    if len(text) > CONFIG_FILE_BYTES_MAX:
        raise UsageError(
            f"The configuration file {path} is larger than {CONFIG_FILE_BYTES_MAX} bytes.", ExitCode.CONFIG
        )
    try:
        return tomllib.loads(text.decode())
    except ValueError as error:  # TOMLDecodeError and UnicodeDecodeError are both ValueErrors
        raise UsageError(f"The configuration file {path} is not valid TOML: {error}.", ExitCode.CONFIG) from None


def _environment_entries(environment: Mapping[str, str], known: Mapping[str, Setting]) -> Iterator[SourcedValue]:
    by_variable = {setting.environment_name: setting for setting in known.values()}
    for variable, raw in environment.items():
        if (
            not variable.startswith("HUTONG_")
            or variable.startswith(TEST_VARIABLE_PREFIX)
            or variable in OTHER_VARIABLES
        ):
            continue
        # A misspelt variable is an error: silence would start a node with a default that nobody chose.
        if variable not in by_variable:
            raise _unknown(variable, "environment", (*by_variable, *OTHER_VARIABLES))
        yield by_variable[variable], raw, variable


def _flag_entries(
    flags: Mapping[str, str | tuple[str, ...]], known: Mapping[str, Setting], source: str
) -> Iterator[SourcedValue]:
    for name, raw in flags.items():
        if name not in known:
            raise _unknown(name, source, known)
        yield known[name], raw, source


def _of_kind(kind: object, raw: object) -> object:
    # A file has typed values; environment and flags are always text. Both are accepted for numbers and booleans.
    if kind is bool:
        return _boolean(raw)
    if kind is int:
        return _integer(raw)
    if kind == tuple[str, ...]:
        return _texts(raw)
    if not isinstance(raw, str):
        raise ValueError(f"is {raw!r}; write it as text in quotes")
    # An empty text unsets what a file sets: TOML and the environment have no word for "none".
    if not raw and kind in (Address | None, Path | None, str | None):
        return None
    if kind in (str, str | None):
        return raw
    return _path(raw) if kind in (Path, Path | None) else parse_address(raw)


def _texts(raw: object) -> tuple[str, ...]:
    """Several texts: a list in a file; elsewhere one text, in which spaces separate them."""
    # Spaces separate them, since listeners, patterns and principals may contain commas and colons.
    if isinstance(raw, str):
        return tuple(raw.split())
    if not isinstance(raw, list | tuple) or not all(isinstance(text, str) for text in raw):
        raise ValueError(f"is {raw!r}; write a list of texts in quotes")
    return tuple(raw)


def _boolean(raw: object) -> bool:
    word = str(raw).lower()
    if word not in WORDS_FOR_TRUE + WORDS_FOR_FALSE:
        raise ValueError(f"is {raw!r}; write true or false")
    return word in WORDS_FOR_TRUE


def _integer(raw: object) -> int:
    # bool is a subclass of int in Python, but `true` in a file is no number.
    if isinstance(raw, bool) or not isinstance(raw, int | str):
        raise ValueError(f"is {raw!r}; write a whole number")
    try:
        return int(raw)
    except ValueError:
        raise ValueError(f"is {raw!r}; write a whole number") from None


def _path(raw: str) -> Path:
    if not raw:
        raise ValueError("is empty; name a folder")
    return Path(raw).expanduser()


def _check_together(settings: Settings) -> None:
    group, log = settings.group, settings.log
    if group.min_session_timeout_ms > group.max_session_timeout_ms:
        raise UsageError("group.min_session_timeout_ms is greater than group.max_session_timeout_ms.", ExitCode.CONFIG)
    if log.max_message_bytes > log.segment_bytes:
        raise UsageError("log.max_message_bytes is greater than log.segment_bytes.", ExitCode.CONFIG)
    if log.cache_region_bytes > log.cache_bytes:
        raise UsageError("log.cache_region_bytes is greater than log.cache_bytes.", ExitCode.CONFIG)
    if settings.bus.log:
        bootstrap_of(settings.bus.log, ExitCode.CONFIG)
    bridge, metrics, tls = settings.bridge, settings.metrics, settings.tls
    # A key or an authority without a certificate: the listener would be plain although TLS was meant.
    for section, own in (("bridge", bridge), ("metrics", metrics)):
        for name, file in (("tls_key", own.tls_key), ("tls_client_ca", own.tls_client_ca)):
            if file is not None and own.tls_certificate is None:
                raise UsageError(f"{section}.{name} is set, but {section}.tls_certificate is not.", ExitCode.CONFIG)
    # Revocation lists are read for clients' certificates, which are only asked for with an authority.
    for section, lists, authorities in (
        ("bridge.tls_", bridge.tls_crl, bridge.tls_client_ca),
        ("metrics.tls_", metrics.tls_crl, metrics.tls_client_ca),
        ("tls.", tls.crl, tls.client_ca),
    ):
        if lists is not None and authorities is None:
            raise UsageError(
                f"{section}crl is set, but {section}client_ca is not: nobody is asked for a certificate.",
                ExitCode.CONFIG,
            )


def _unknown(name: str, source: str, known: Iterable[str] | Mapping[str, Setting]) -> UsageError:
    import difflib  # needed only to say what went wrong

    # The same section first: `journal.flush_ms` is more like names of other sections than like those of its own. 0.4
    # instead of difflib's 0.6: a doubtful suggestion is better than none.
    section = name.partition(".")[0] + "."
    own = [each for each in known if each.startswith(section)]
    near = difflib.get_close_matches(name, own, 1, 0.7) or difflib.get_close_matches(name, list(known), 1, 0.4)
    nearest = _ours_for_kafka_name(name, known) or next(iter(near), None)
    advice = f"did you mean {nearest}?" if nearest else "`hutong config` lists the known ones."
    return UsageError(f"Unknown setting {name} ({source}); {advice}", ExitCode.CONFIG)


def _ours_for_kafka_name(name: str, known: Iterable[str] | Mapping[str, Setting]) -> str | None:
    """Our name when the user wrote Kafka's, with dots or underscores, with or without a section before it."""
    if not isinstance(known, Mapping):
        return None
    plain = name.replace("_", ".")  # underscores, too, as in our own names
    for setting in known.values():
        kafka_name = setting.facts.kafka_name
        if kafka_name and (plain == kafka_name or plain.endswith("." + kafka_name)):
            return setting.name
    return None


def shown_value(setting: Setting, value: object) -> str:
    if value is None:
        return ""
    # `hutong config` prints this; that a password is set at all is what its reader must know.
    if setting.facts.secret:
        return "(set, not shown)" if value else ""
    if isinstance(value, tuple):
        return " ".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
