"""TOML within bounds: what is read is what `tomllib` reads."""

import tomllib

import pytest

from hutong.pipelines.declared.declare.toml_text import KEY_PARTS_MAX, parse_toml

DOTS = "." * 300
BASIC, LITERAL = '"' * 3, "'" * 3


@pytest.mark.parametrize(
    "text",
    [
        f'a = "{DOTS}"',
        f"a = '{DOTS}'",
        f'a = {BASIC}\nx = "{DOTS}" \\" {DOTS}\n"" {DOTS}{BASIC}',
        f"a = {LITERAL}\n{DOTS} '' {DOTS}{LITERAL}",
        f"a = 1 # it's {DOTS}",
        f'"a{DOTS}" = 1',
        "a = [" + ", ".join(["1.5"] * 300) + "]",
        "\n".join(f"a{number}.b.c = {number}.5" for number in range(300)),
        "[" + ".".join(f"a{number}" for number in range(KEY_PARTS_MAX)) + "]\nb.c = {d.e = 1}",
        'a = "\\""\nb = "x"',
    ],
)
def test_dots_in_texts_and_numbers_and_many_short_keys_are_fine(text: str) -> None:
    assert parse_toml(text) == tomllib.loads(text)


@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_a_key_of_many_parts_is_refused(quote: str) -> None:
    parts = [f"{quote}a{quote}"] * (KEY_PARTS_MAX + 1)
    for key in (".".join(parts), " . ".join(parts), f"b = {BASIC}x{BASIC}\n{'.'.join(parts)}"):
        with pytest.raises(ValueError, match="a key has more than 100 parts"):
            parse_toml(f"{key} = 1")


@pytest.mark.parametrize(
    "text", [f'a = {BASIC}""""""', f"a = {LITERAL}x", 'a = "x', "a = 'x", BASIC * 9999, LITERAL * 9999]
)
def test_texts_without_an_end_are_refused_by_the_parser(text: str) -> None:
    with pytest.raises(tomllib.TOMLDecodeError):
        parse_toml(text)
