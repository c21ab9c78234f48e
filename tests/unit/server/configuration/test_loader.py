"""The three sources in their order, and what a wrong value is told."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import ExitCode, UsageError
from hutong.server.configuration.loader import Effective, convert, load, parse_address
from hutong.server.configuration.sections.facts import Facts
from hutong.server.configuration.settings import Address, Setting, Settings, all_settings


def shown(effective: Effective, name: str) -> tuple[str, str]:
    return next((value, source) for setting, value, source in effective.rows() if setting.name == name)


def write(folder: Path, text: str) -> Path:
    path = folder / "hutong.toml"
    path.write_text(text)
    return path


def test_defaults_stand_where_no_source_speaks() -> None:
    effective = load(environment={})
    assert effective.settings == Settings()
    assert set(effective.sources.values()) == {"default"}


def test_several_texts_are_a_list_in_the_file_and_words_elsewhere(tmp_path: Path) -> None:
    path = write(tmp_path, "[bridge]\npermit_in = ['chat\\..*', 'two words']\npermit_out = []\n")
    bridge = load(path, {"HUTONG_BRIDGE_PERMIT_OUT_ADDRESSES": " news  weather "}).settings.bridge
    assert bridge.permit_in == (r"chat\..*", "two words")
    assert bridge.permit_out == ()
    assert bridge.permit_out_addresses == ("news", "weather")
    effective = load(path, {}, {"bridge.permit_in": ("a b", "c")})
    assert effective.settings.bridge.permit_in == ("a b", "c")
    assert shown(effective, "bridge.permit_in") == ("a b c", "flag")


@pytest.mark.parametrize("text", ["permit_in = 5", "permit_in = [5]", "permit_in = {a = 'b'}"])
def test_what_is_no_list_of_texts(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="write a list of texts in quotes") as caught:
        load(write(tmp_path, f"[bridge]\n{text}\n"), {})
    assert caught.value.exit_code == ExitCode.CONFIG


def test_tls_needs_a_certificate() -> None:
    with pytest.raises(UsageError, match=r"bridge.tls_key is set, but bridge.tls_certificate is not"):
        load(environment={}, flags={"bridge.tls_key": "key.pem"})
    bridge = load(environment={}, flags={"bridge.tls_certificate": "~/c.pem", "bridge.tls_key": ""}).settings.bridge
    assert (bridge.tls_certificate, bridge.tls_key) == (Path("~/c.pem").expanduser(), None)


def test_flag_beats_environment_beats_file(tmp_path: Path) -> None:
    path = write(tmp_path, "[log]\nretention_ms = 1\nretention_bytes = 10\nsegment_bytes = 1048600\n")
    environment = {"HUTONG_LOG_RETENTION_MS": "2", "HUTONG_LOG_RETENTION_BYTES": "20"}
    effective = load(path, environment, {"log.retention_ms": "3"})
    log = effective.settings.log
    assert (log.retention_ms, log.retention_bytes, log.segment_bytes) == (3, 20, 1_048_600)
    assert shown(effective, "log.retention_ms") == ("3", "flag")
    assert shown(effective, "log.retention_bytes") == ("20", "HUTONG_LOG_RETENTION_BYTES")
    assert shown(effective, "log.segment_bytes") == ("1048600", str(path))


def test_file_named_by_the_environment(tmp_path: Path) -> None:
    path = write(tmp_path, '[kafka]\nlisten = "[::1]:9999"\nadvertised = "broker.example:9092"\n')
    kafka = load(environment={"HUTONG_CONFIG": str(path)}).settings.kafka
    assert (kafka.listen, kafka.advertised) == (Address("::1", 9999), Address("broker.example", 9092))


def test_every_kind_of_value_from_text() -> None:
    flags = {
        "node.data_dir": "~/somewhere",
        "topic.auto_create": "no",
        "log.qos": "receive",
        "kafka.advertised": "",
        "network.max_connections": "7",
    }
    settings = load(environment={}, flags=flags).settings
    assert settings.node.data_dir == Path("~/somewhere").expanduser()
    assert settings.topic.auto_create is False
    assert settings.log.qos == "receive"
    assert settings.kafka.advertised is None
    assert settings.network.max_connections == 7


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[log]\nretension_ms = 1\n", "did you mean log.retention_ms?"),
        ("[log]\nretention.ms = 1\n", "did you mean log.retention_ms?"),
        ("[topic]\nnum_partitions = 1\n", "did you mean topic.default_partitions?"),
        ("num_partitions = 1\n", "did you mean topic.default_partitions?"),
        ("message_max_bytes = 1\n", "did you mean log.max_message_bytes?"),
        ("[zzzzzz]\nqqqqqq = 1\n", "`hutong config` lists the known ones."),
        ("[log]\nqos = 'fast'\n", "choose receive or persistence."),
        ("[log]\nqos = 1\n", "write it as text in quotes."),
        ("[log]\nretention_ms = true\n", "write a whole number."),
        ("[log]\nretention_ms = 1.5\n", "write a whole number."),
        ("[topic]\ndefault_partitions = 0\n", "the least is 1."),
        ("[topic]\ndefault_partitions = 10001\n", "the most is 10000."),
        ("[topic]\nauto_create = 'perhaps'\n", "write true or false."),
        ("[kafka]\nlisten = 'localhost'\n", "write HOST:PORT with a port from 0 to 65535."),
        ("[node]\ndata_dir = ''\n", "name a folder."),
        ("[group]\nmin_session_timeout_ms = 9\nmax_session_timeout_ms = 8\n", "is greater than"),
        ("[log]\nmax_message_bytes = 2000000\nsegment_bytes = 1048576\n", "is greater than"),
        ("[log]\ncache_region_bytes = 2097152\ncache_bytes = 1048576\n", "is greater than"),
        ("[log\n", "is not valid TOML"),
        ("#\N{NO-BREAK SPACE}" + "x" * 1024 * 1024, "is larger than"),
    ],
)
def test_a_wrong_file_is_told_in_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(write(tmp_path, text), {})
    message = str(caught.value)
    assert sentence in message
    assert "\n" not in message
    assert caught.value.exit_code == ExitCode.CONFIG


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not valid TOML"):
        load(path, {})


def test_a_missing_file_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.toml: No such file") as caught:
        load(tmp_path / "none.toml", {})
    assert caught.value.exit_code == ExitCode.NOINPUT


def test_unknown_names_in_environment_and_flags() -> None:
    with pytest.raises(UsageError, match="did you mean HUTONG_LOG_RETENTION_MS"):
        load(environment={"HUTONG_LOG_RETENTION": "1"})
    with pytest.raises(UsageError, match=r"did you mean log\.retention_ms"):
        load(environment={}, flags={"log.retention.ms": "1"})
    assert load(environment={"HUTONG_BOOTSTRAP": "x:1", "HUTONG_TEST_SEED": "1", "HOME": "/"}).settings == Settings()


def test_a_secret_is_redacted_also_where_it_is_wrong() -> None:
    secret = Setting("tls", "password", str, "", Facts("A secret.", secret=True, choices=("never",)))
    with pytest.raises(UsageError) as caught:
        convert(secret, "open sesame", "flag")
    assert "sesame" not in str(caught.value)


@given(st.text())
def test_an_address_parses_or_says_what_it_should_be(text: str) -> None:
    try:
        address = parse_address(text)
    except ValueError:
        with pytest.raises(ValueError, match="write"):
            parse_address(text)
        return
    assert 0 <= address.port <= 65_535
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("text", "address"),
    [(":9092", Address("0.0.0.0", 9092)), ("[::1]:0", Address("::1", 0)), ("a.b:65535", Address("a.b", 65_535))],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_address(text) == address


def test_every_setting_has_one_name_a_meaning_and_a_default_within_its_bounds() -> None:
    settings = list(all_settings())
    assert len({setting.environment_name for setting in settings}) == len(settings)
    for setting in settings:
        assert setting.facts.meaning.endswith(".")
        raw = setting.default if isinstance(setting.default, tuple) else str(setting.default)
        raw = "" if setting.default is None else raw
        assert convert(setting, raw, "test") == setting.default


@pytest.mark.parametrize("section", ["tls.", "bridge.tls_", "metrics.tls_"])
def test_revocation_lists_without_authorities_are_refused(section: str) -> None:
    flags = {f"{section}crl": "crl.pem"}
    with pytest.raises(UsageError, match=f"{section}crl is set, but {section}client_ca is not"):
        load(environment={}, flags=flags)


@pytest.mark.parametrize("section", ["bridge", "metrics"])
@pytest.mark.parametrize("key", ["tls_key", "tls_client_ca"])
def test_what_needs_a_certificate_is_refused_without_one(section: str, key: str) -> None:
    with pytest.raises(UsageError, match=f"{section}.{key} is set, but {section}.tls_certificate is not"):
        load(environment={}, flags={f"{section}.{key}": "file.pem"})


def test_a_secret_that_is_not_set_is_not_shown_as_set() -> None:
    shown = {setting.name: value for setting, value, _ in load(environment={}).rows() if setting.facts.secret}
    assert shown
    assert set(shown.values()) == {""}
    is_set = load(environment={}, flags={"metrics.password": "open sesame"})
    assert {value for setting, value, _ in is_set.rows() if setting.name == "metrics.password"} == {"(set, not shown)"}
