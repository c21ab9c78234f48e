import pytest

from hutong.pipelines.source.rows.ddl import parse_ddl
from hutong.pipelines.source.rows.kinds import ArrayOf, DecimalOf, MapOf, Scalar, StructField, StructOf, ddl


def test_columns_are_read() -> None:
    read = parse_ddl("user STRING, bytes: bigint NOT NULL COMMENT 'how many', `a ``b` dec(5,2)")
    assert read == StructOf(
        (
            StructField("user", Scalar("STRING")),
            StructField("bytes", Scalar("BIGINT"), required=True),
            StructField("a `b", DecimalOf(5, 2)),
        )
    )
    assert ddl(read) == "STRUCT<`user`: STRING, `bytes`: BIGINT, `a ``b`: DECIMAL(5,2)>"


def test_types_may_be_nested() -> None:
    read = parse_ddl("array<struct<a:int,m map<string,timestamp_ntz>>>")
    assert read == ArrayOf(
        StructOf((StructField("a", Scalar("INT")), StructField("m", MapOf(Scalar("TIMESTAMP_NTZ")))))
    )
    assert parse_ddl(ddl(read)) == read
    assert parse_ddl("long") == Scalar("BIGINT")
    assert parse_ddl("decimal(9)") == DecimalOf(9, 0)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "it is empty"),
        ("bytes BIGNIT", "BIGNIT is no type that can be read: did you mean BIGINT"),
        ("a STRING b INT", "b stands where a comma or the end is expected"),
        ("a STRING,", "it ends where the name of a column is expected"),
        ("a INT, A INT", "it names a twice"),
        ("a map<int,int>", "the keys of a MAP must be STRING"),
        ("a map<string>", "> stands where a comma is expected"),
        ("a array<int", "the end stands where > is expected"),
        ("a array(int)", r"\( stands where < is expected"),
        ("a decimal(39)", "has no room"),
        ("a decimal(5,6)", "has no room"),
        ("a decimal(x)", "x stands where a number is expected"),
        ("a decimal(5", r"the end stands where \) is expected"),
        ("a INT NOT", "the end stands where NULL is expected"),
        ("a ?", r"'\?' cannot be read"),
        ("< INT", "< stands where the name of a column is expected"),
        ("a " + "array<" * 50 + "int" + ">" * 50, "nested deeper than 32"),
        ("x" * 2**21, "longer than"),
    ],
)
def test_what_cannot_be_read_is_told(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_ddl(text)
