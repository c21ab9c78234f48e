"""The useful sentence of a Spark analysis error: without codes and plans."""

import re

from hutong.pipelines.engine.failures import translate

CONDITION = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
STATE = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)
POSITION = re.compile(r"line (\d+),? pos(?:ition)? (\d+)")


def analysis_sentence(error: Exception) -> str:
    """Return one line: Spark's sentence, and its place in the query."""
    text = str(error).strip()
    if not CONDITION.match(text):
        return str(translate(error))
    position = POSITION.search(text)
    message = " ".join(STATE.sub("", CONDITION.sub("", text)).split())
    place = f" (line {position[1]}, column {int(position[2]) + 1})" if position else ""
    return f"{message}{place}"
