"""The guard's part on Secrets: no job reads the certificates by which jobs' own pods know each other.

Who holds one of them can speak to that job's coordinator as a worker or as the operator. It goes by the name
alone, since a plan reads no Secret; so a Secret of a user's may not have such a name either.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from dartes.spec.export import ExportSpec
from dartes.spec.job import JobSpec
from dartes_operator.resources.identity import TlsRole
from dartes_operator.resources.sources import credentials

_ENDINGS: Final = tuple(f"-tls-{role.value}" for role in TlsRole)


def secret_problems(name: Any, path: str) -> Iterator[str]:
    """Yield why a Secret may not be named at this path, as `path: why`; nothing where it may be."""
    if isinstance(name, str) and name.endswith(_ENDINGS):
        yield (
            f"{path}: {name} is not allowed; Secrets ending in {', '.join(_ENDINGS)} are the "
            "credentials of a job's own pods; give the Secret another name"
        )


def environment_secrets(env: Any, env_from: Any, path: str) -> Iterator[str]:
    """Yield the refused Secrets in a container's `env` and `envFrom`; `path` is the container's."""
    for where, entry in _maps(env, f"{path}.env"):
        reference = _map(_map(entry.get("valueFrom")).get("secretKeyRef"))
        yield from secret_problems(reference.get("name"), f"{where}.valueFrom.secretKeyRef.name")
    for where, entry in _maps(env_from, f"{path}.envFrom"):
        yield from secret_problems(_map(entry.get("secretRef")).get("name"), f"{where}.secretRef.name")


def source_secrets(spec: JobSpec) -> Iterator[str]:
    """Yield the refused Secrets among those that the job's model and data sets are fetched with."""
    for found in credentials(spec):
        yield from secret_problems(found.secret, found.path)


def export_secrets(export: ExportSpec) -> Iterator[str]:
    """Yield the export's Secret where it is refused."""
    if export.secret_ref is not None:
        yield from secret_problems(export.secret_ref.name, "spec.export.secretRef.name")


def _maps(value: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    # What is no list of maps reads no Secret: the API server refuses the pod.
    if isinstance(value, Sequence) and not isinstance(value, str):
        for position, entry in enumerate(value):
            if isinstance(entry, Mapping):
                yield f"{path}[{position}]", entry


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
