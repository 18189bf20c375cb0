"""Which volume claims a job's sources name, and how they appear in its pods."""

from collections.abc import Iterable, Iterator

from dartes.spec.dataset import DatasetSpec
from dartes.spec.job import JobSpec
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


def dataset_sources(spec: JobSpec) -> Iterator[str]:
    """Every place that problems are read from."""
    for dataset in (spec.dataset, *(entry.dataset for entry in spec.evaluation.sets)):
        yield from _sources(dataset)


def _sources(dataset: DatasetSpec) -> Iterator[str]:
    yield dataset.source
    yield from (stage.source for stage in dataset.stages)
    yield from (part.source for part in dataset.mix)


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
