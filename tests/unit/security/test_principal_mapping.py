"""Rules from subjects to names: the examples of KIP-371, and rules that are not written as they should be."""

import pytest

from hutong.foundation.errors import ProtocolError, UsageError
from hutong.security.certificate_principals import CertificatePrincipals
from hutong.security.principal_mapping import PrincipalMapping
from hutong.security.principals import ANONYMOUS

RULES = (
    r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, "
    r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT"
)


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=kafka-svc,OU=ServiceUsers,O=Unknown,C=Unknown", "kafka-svc"),
        ("CN=Admin1,OU=AdminUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "admin1@adminusers"),
        ("cn=Eve.2,dc=example", "EVE.2"),
        ("O=nobody", "O=nobody"),
    ],
)
def test_the_first_rule_that_matches_names_the_user(subject: str, name: str) -> None:
    assert PrincipalMapping(RULES).name_of(subject) == name


@pytest.mark.parametrize(
    ("case", "name"),
    [
        ("L", "\u212aim"),
        ("L", "\u0130da"),
        ("U", "\u017fue"),
        ("U", "i\u0131da"),
        ("U", "wei\u00df"),
        ("U", "\ufb01ona"),
    ],
)
def test_a_letter_that_would_become_an_ascii_one_names_nobody(case: str, name: str) -> None:
    """A certificate for the Kelvin sign and "im" must not be one for Kim."""
    assert PrincipalMapping(rf"RULE:^CN=(.*)$/$1/{case}").name_of(f"CN={name}") is None


def test_other_letters_change_their_case() -> None:
    assert PrincipalMapping("RULE:^CN=(.*)$/$1/L").name_of("CN=ÄNNE-Ω") == "änne-ω"
    assert PrincipalMapping("RULE:^CN=(.*)$/$1/U").name_of("CN=änne-ω") == "ÄNNE-Ω"


def test_by_default_the_subject_is_the_name() -> None:
    for rules in ("DEFAULT", "", "  "):
        assert PrincipalMapping(rules).name_of("CN=ann,O=x") == "CN=ann,O=x"


def test_a_subject_that_no_rule_matches_has_no_name() -> None:
    assert PrincipalMapping("RULE:^CN=(.*)$/$1/").name_of("O=x") is None


def test_a_pattern_may_hold_a_slash_and_a_comma() -> None:
    assert PrincipalMapping(r"RULE:CN=a\/b,O=(.),.*/$1-x/,DEFAULT").name_of("CN=a/b,O=y,C=z") == "y-x"


@pytest.mark.parametrize(
    "rules",
    ["RULE:CN=(.*)", "RULE:(/x/", "RULE:a/b/X", "default", "RULE:CN=(.*)/$2/", "DEFAULT DEFAULT", "RULE:(?=x)/y/"],
)
def test_wrong_rules_are_refused(rules: str) -> None:
    with pytest.raises(UsageError, match=r"ssl\.principal\.mapping\.rules") as caught:
        PrincipalMapping(rules)
    assert caught.value.exit_code == 78


def test_who_shows_nothing_is_anonymous_and_garbage_is_refused() -> None:
    principals = CertificatePrincipals("DEFAULT")
    assert principals.principal_of(None) == ANONYMOUS
    with pytest.raises(ProtocolError):
        principals.principal_of(b"garbage")
