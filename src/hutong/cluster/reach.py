"""The nodes that reach no majority of all nodes while others do, by what each of them says of its links.

    every node reaches a majority     nobody is out of reach
    some nodes do not                 these are
    no node does                      nobody is: there is no better place for anything

Strategy: a node that has had no link with another for a while says so in its registration. There is no link where one
of both says so, for a node that is stopped or slow says nothing. A node counts itself only by its own words: right
after a pause the others' words are older than its links.

Knows nothing of links, registrations or time.
"""

from collections.abc import Collection, Mapping


def out_of_reach(own: int, unlinked: Mapping[int, Collection[int]]) -> frozenset[int]:
    """The nodes that are out of reach. `unlinked` has all nodes, each with those that it has no link with."""
    apart = {node: _apart(node, unlinked) if node != own else unlinked[own] for node in unlinked}
    found = frozenset(node for node, missing in apart.items() if _is_minority(missing, unlinked))
    return found if len(found) < len(unlinked) else frozenset()


def _apart(node: int, unlinked: Mapping[int, Collection[int]]) -> Collection[int]:
    return [other for other in unlinked if other in unlinked[node] or node in unlinked[other]]


def _is_minority(missing: Collection[int], nodes: Collection[int]) -> bool:
    """Return True if the others that are not missing are, with the node itself, no majority."""
    return 2 * sum(node not in missing for node in nodes) <= len(nodes)
