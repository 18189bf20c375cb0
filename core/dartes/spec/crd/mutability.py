"""Which fields may change once a job has started, as rules at the root of the object.

They are made from the models' own word on each field. A rule at a field would bind from creation and be
passed over where the field appears or vanishes, so all of them stand at the root and compare presence too.
"""

from collections.abc import Iterator

from dartes.spec.base import UPWARDS_KEY, Mutability
from dartes.spec.crd.structural import PRESERVE_KEY, Node, Rule
from dartes.spec.fields import entries, entry_paths

_NOT_STARTED = "!has(oldSelf.status) || !has(oldSelf.status.startTime)"
_SUSPENDED = "oldSelf.spec.suspend"


def mutability_rules(spec: Node) -> tuple[Rule, ...]:
    """Return the rules for all fields of `spec`, given its structural schema."""
    return tuple(_below(("spec",), spec))


def _below(path: tuple[str, ...], node: Node) -> Iterator[Rule]:
    """One rule for each largest part of the tree whose fields all change alike; none where they are free."""
    properties = node["properties"]
    assert isinstance(properties, dict)
    for name, inner in properties.items():
        assert isinstance(inner, dict)
        here = (*path, name)
        always = entry_paths()[here].required or "default" in inner
        if PRESERVE_KEY in inner:
            continue  # CEL can't see into it; the operator says that a change is ignored.
        kinds = _kinds(here)
        if len(kinds) > 1 or _holds_what_is_not_seen(inner):
            # The fields inside are compared without asking whether this one is there.
            assert always, f"{'.'.join(here)}: fields that change differently need a parent with a default"
            yield from _below(here, inner)
        elif kinds != {Mutability.ANY_TIME}:
            yield _rule(here, next(iter(kinds)), always=always)


def _holds_what_is_not_seen(node: Node) -> bool:
    properties = node.get("properties", {})
    assert isinstance(properties, dict)
    return any(isinstance(inner, dict) and PRESERVE_KEY in inner for inner in properties.values())


def _kinds(path: tuple[str, ...]) -> set[Mutability]:
    """Return how the innermost fields in a part of the tree may change."""
    inside = [entry for entry in entries() if entry.path[: len(path)] == path]
    parents = {entry.path[:length] for entry in inside for length in range(len(entry.path))}
    return {Mutability(entry.mutability) for entry in inside if entry.path not in parents}


def _rule(path: tuple[str, ...], kind: Mutability, *, always: bool) -> Rule:
    field = ".".join(path)
    new, old = f"self.{field}", f"oldSelf.{field}"
    if entry_paths()[path].schema.get(UPWARDS_KEY):
        grown = f"({new} == {old} || {_SUSPENDED} && {new} > {old})"
        return Rule(
            f"{_NOT_STARTED} || has({new}) == has({old}) && (!has({new}) || {grown})",
            f"{field} can only grow, and only while the job is suspended: set spec.suspend to true first, "
            "then write a larger number",
            field,
        )
    same = f"{new} == {old}" if always else f"has({new}) == has({old}) && (!has({new}) || {new} == {old})"
    if kind is Mutability.FIXED:
        return Rule(
            f"{_NOT_STARTED} || {same}",
            f"{field} is fixed once the job has started: write what it was, or apply a job of another name",
            field,
        )
    return Rule(
        f"{_NOT_STARTED} || {_SUSPENDED} || {same}",
        f"{field} can change only while the job is suspended: set spec.suspend to true first, then change it",
        field,
    )
