"""Which volume claims sources name, and how they appear in a job's pods."""

from collections.abc import Iterable

from dartes.spec.source import Scheme, parse_source
from dartes_operator.resources.pod import Mount

CLAIMS_PATH = "/mnt/dartes/pvc"


def claim_of(source: str | None) -> tuple[str, str] | None:
    """(claim, path in it) of a `pvc://claim/path`; None for every other source."""
    if not source:
        return None
    parsed = parse_source(source)
    if parsed.scheme is not Scheme.PVC:
        return None
    name, _, path = parsed.rest.partition("/")
    return name, path.strip("/")


def claim_mounts(sources: Iterable[str | None], *, writable: str | None = None) -> tuple[Mount, ...]:
    """One mount for each claim named, read-only but for `writable`'s claim."""
    written = claim_of(writable)
    names = {found[0] for source in sources if (found := claim_of(source))}
    if written is not None:
        names.add(written[0])
    return tuple(
        Mount(
            name=f"claim-{position}",
            path=f"{CLAIMS_PATH}/{name}",
            source={"persistentVolumeClaim": {"claimName": name}},
            read_only=written is None or name != written[0],
        )
        for position, name in enumerate(sorted(names))
    )
