"""Selectors in SQL92 against RocketMQ's own evaluator, and Java's consumer with one."""

import subprocess
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final

import pytest
from confluent_kafka import Producer
from tests.support.maven import java_program
from tests.support.rocketmq import NEW, OLD, RocketPeer
from tests.support.selector_texts import damaged, properties, selector_text

from hutong.broker.rocketmq.selectors.parser import selector
from hutong.broker.rocketmq.selectors.tokens import SelectorError
from hutong.testing import EmbeddedNode

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(120)]
FOLDER: Final = Path(__file__).parent / "java_rocketmq"
PAIRS: Final = 5_000
Pair = tuple[str, Mapping[str, str]]


def of_rocketmq(pairs: Sequence[Pair]) -> list[str]:
    """What RocketMQ's evaluator says of each: `true`, `false` or `refused`."""
    words = java_program("rocketmq-filter", FOLDER / "SelectorPeer.java", f"org.apache.rocketmq:rocketmq-filter:{NEW}")

    def line(expression: str, given: Mapping[str, str]) -> str:
        texts = [expression, *(text for item in given.items() for text in item)]
        return " ".join(b64encode(text.encode()).decode() for text in texts)

    asked = "".join(f"{line(*pair)}\n" for pair in pairs)
    done = subprocess.run(words, input=asked, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.split()


def of_hutong(expression: str, given: Mapping[str, str]) -> str:
    try:
        return str(selector(expression)(given)).lower()
    except SelectorError:
        return "refused"


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(2, 8))])
def test_selectors_agree_with_rocketmqs(seed: int) -> None:
    random = Random(seed)
    pairs = [(selector_text(random), properties(random)) for _ in range(PAIRS)]
    theirs = of_rocketmq(pairs)
    ours = [of_hutong(*pair) for pair in pairs]
    assert [each for each in zip(pairs, ours, theirs, strict=True) if each[1] != each[2]] == []
    assert min(Counter(ours).values()) > PAIRS // 50, Counter(ours)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(2, 8))])
def test_what_rocketmq_refuses_is_refused(seed: int) -> None:
    random = Random(seed)
    pairs = [(damaged(random, selector_text(random)), properties(random)) for _ in range(PAIRS)]
    theirs = of_rocketmq(pairs)
    # RocketMQ ignores what follows a whole expression, and here that is refused, too.
    ours = [of_hutong(*pair) for pair in pairs]
    assert [each for each in zip(pairs, ours, theirs, strict=True) if each[1] not in (each[2], "refused")] == []


@pytest.mark.parametrize("version", [pytest.param(OLD, marks=pytest.mark.thorough), NEW])
def test_java_reads_by_an_expression(version: str, tmp_path: Path) -> None:
    java = RocketPeer(version, tmp_path, source=FOLDER / "PopPeer.java")
    with EmbeddedNode(settings={"rocketmq.listen": "127.0.0.1:0"}) as node:
        node.create_topic("Prices", partitions=4)
        producer = Producer({"bootstrap.servers": node.bootstrap})
        for number in range(100):
            producer.produce("Prices", b"%d" % number, headers={"price": str(number)}, partition=number % 4)
        assert producer.flush(30) == 0
        words = ["sql", node.rocketmq or "", "Prices", "group"]
        found = java.run(*words, "price BETWEEN 10 AND 19 OR price = 50 AND color IS NULL", "11")
        assert sorted(int(each["body"]) for each in found) == [*range(10, 20), 50]
        (refused,) = java.run(*words, "price LIKE '1%'", "1")
        assert refused["code"] == 23
        assert "parse the consumer's subscription failed" in refused["error"]
