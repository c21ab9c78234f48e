"""Resources of the v3 API as values: each has its kind, its own link, and links to what belongs to it.

Links are paths: a client resolves them at the address by which it came, which a proxy may have changed.

Knows nothing of clients.
"""

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

Resource = dict[str, Any]


def link(*segments: object) -> str:
    """The path of a resource below `/v3/clusters`."""
    return "/".join(("/v3/clusters", *[quote(str(segment), safe="") for segment in segments]))


def resource(kind: str, path: str, crn: str, /, **facts: object) -> Resource:
    """One resource. `crn` is its place in Confluent's names (CRN)."""
    return {"kind": f"Kafka{kind}", "metadata": {"self": path, "resource_name": f"crn:///{crn}"}, **facts}


def listed(kind: str, path: str, resources: Iterable[Resource]) -> Resource:
    """All resources of a kind on one page."""
    return {"kind": f"Kafka{kind}List", "metadata": {"self": path, "next": None}, "data": [*resources]}


def related(path: str) -> Resource:
    """A link to what belongs to a resource."""
    return {"related": path}
