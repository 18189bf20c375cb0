"""The release before this one, made up: the present sources with an older version and a few changes.

Tests of upgrades need a release that differs where a real one would: its version, what it renders into pods,
and what its coordinator tells the operator. It only rewrites a build's context; it builds nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from testcluster.build_context import VERSION_FILE, Context

VERSION: Final = "0.0.9"

AWAY_SECONDS: Final = 31
"""How long its pods bear a lost node; the present release says another number."""

UNTOLD: Final = ("stage", "stages", "notes", "placements")
"""Fields of `StatusResponse` that its coordinator does not know."""

RETIRED: Final = b"\xf2\x03\x03old"
"""Field 62 of `StatusResponse` on the wire, which its coordinator still fills and nobody else knows."""


@dataclass(frozen=True, slots=True)
class Change:
    """A text that stands exactly once in a file, and what stands there in the older release."""

    path: str
    present: str
    previous: str


def changes(present_version: str) -> tuple[Change, ...]:
    """What the older release has otherwise."""
    status = "coordinator/dartes_coordinator/status.py"
    return (
        Change(VERSION_FILE, f'__version__ = "{present_version}"', f'__version__ = "{VERSION}"'),
        Change(
            "operator/dartes_operator/resources/pod.py",
            "AWAY_SECONDS: Final = 30\n",
            f"AWAY_SECONDS: Final = {AWAY_SECONDS}\n",
        ),
        Change(status, "    return wire.StatusResponse(\n", "    told = wire.StatusResponse(\n"),
        Change(
            status,
            "        placements=placements,\n    )\n",
            "        placements=placements,\n    )\n"
            f"    for name in {UNTOLD}:\n"
            "        told.ClearField(name)\n"
            f"    told.MergeFromString({RETIRED!r})\n"
            "    return told\n",
        ),
    )


def previous(context: Context) -> Context:
    """The context of the older release; ValueError where a source no longer has what is to be changed."""
    files: dict[str, bytes] = dict(context.files)
    for change in changes(context.version):
        files[change.path] = _changed(files, change)
    return Context(files)


def _changed(files: Mapping[str, bytes], change: Change) -> bytes:
    text = files[change.path].decode()
    found = text.count(change.present)
    if found != 1:
        raise ValueError(
            f"{change.path} holds {change.present!r} {found} times: testcluster/previous.py needs it once"
        )
    return text.replace(change.present, change.previous).encode()
