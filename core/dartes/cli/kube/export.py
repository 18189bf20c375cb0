"""`kubectl dartes export`: the model of a job in a cluster, rebuilt here from its journal, or built there.

What comes out of the cluster is under a megabyte; the weights are those of `dartes export`, bit for bit.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from dartes.cli.export import ModelPlace, PreparedExport, exported_line, require_good
from dartes.cli.kube.bundle import Bundle
from dartes.cli.kube.fetch import Say, fetch
from dartes.cli.kube.kubectl import Kubectl
from dartes.cli.kube.remote import build_there
from dartes.cli.show import accuracy_lines
from dartes.destinations.choice import Evaluated, choose, wanted_of
from dartes.errors import ConfigurationError
from dartes.journal import Exported, read_good_prefix
from dartes.noise import ServedDtype
from dartes.report.estimators import wilson_interval
from dartes.spec.source import Scheme, parse_source

CLUSTER_ONLY: Final = (Scheme.PVC, Scheme.S3, Scheme.GCS)


@dataclass(frozen=True)
class Asked:
    """What to export and where to.

    `iteration` None is the last; `dtype` None the one that members were served in; `model` overrides where
    the base model is.
    """

    output: Path
    iteration: int | str | None = None
    dtype: str | None = None
    model: Path | None = None
    remote: bool = False


def export_job(kubectl: Kubectl, name: str, asked: Asked, say: Say) -> list[str]:
    """Write the model of a job to a new local folder; returns what to print.

    Raises
    ------
    ConfigurationError
        No such job or iteration, the base model isn't here or is another one, or the output exists.
    TransientError
        The cluster or the hub can't be reached, or the disk is full.
    """
    require_free(asked.output)
    fetched = fetch(kubectl, name, say)
    bundle = fetched.bundle
    prepared = prepare(bundle, asked)
    if prepared.note is not None:
        say(prepared.note)
    if asked.remote:
        say("building the model in the cluster")
        line = build_there(kubectl, fetched, prepared, asked.output)
    else:
        line = exported_line(_write_here(prepared, asked))
    return [*_accuracies(bundle, prepared.iteration), line]


def prepare(bundle: Bundle, asked: Asked) -> PreparedExport:
    """The export that a bundle allows for; checks the journal's hashes. Raises ConfigurationError."""
    with TemporaryDirectory(prefix="dartes-") as folder:
        path = Path(folder) / "journal.dartes"
        path.write_bytes(bundle.journal)
        good = read_good_prefix(path)
    wanted = wanted_of(asked.iteration)
    require_good(good, wanted, "or let the coordinator start once more: it writes the journal anew")
    chosen = choose(wanted, len(good.journal.rows), bundle.evaluations, bundle.first_set)
    place = ModelPlace(bundle.model_source, bundle.model_revision, Path.cwd())
    if asked.model is not None:
        place = ModelPlace(str(asked.model.absolute()), None, Path.cwd())
    dtype = ServedDtype((asked.dtype or bundle.served_dtype).lower())
    return PreparedExport(good.journal, chosen.iteration, place, dtype, note=chosen.note)


def require_free(output: Path) -> None:
    """Raise ConfigurationError, before anything is asked of the cluster, where the model can't be written."""
    if output.is_symlink() or (output.exists() and not (output.is_dir() and not any(output.iterdir()))):
        raise ConfigurationError(
            f"--output {output}: exists and is not empty; name a new folder or remove it"
        )
    parent = next(folder for folder in output.absolute().parents if folder.exists())
    if not os.access(parent, os.W_OK):
        raise ConfigurationError(f"--output {output}: {parent} can't be written to; name another folder")


def _write_here(prepared: PreparedExport, asked: Asked) -> Exported:
    source = prepared.model.source
    place = parse_source(source)
    if asked.model is None and place.scheme in CLUSTER_ONLY:
        raise ConfigurationError(
            f"model.source = {source!r} can't be read from this machine; copy the base model here and give "
            "--model PATH, or have it built in the cluster with --remote"
        )
    try:
        return prepared.write(asked.output)
    except ConfigurationError as error:
        if asked.model is None and place.scheme is Scheme.FILE and not place.path(Path.cwd()).is_dir():
            raise ConfigurationError(
                f"{error}. That path is of the cluster; copy the base model here and give --model PATH, or "
                "have it built in the cluster with --remote"
            ) from error
        raise


def _accuracies(bundle: Bundle, iteration: int) -> list[str]:
    """Accuracy before training and at the newest evaluation up to the exported iteration, per set."""
    sets: dict[str, dict[str, object]] = {}
    for point in sorted(bundle.evaluations, key=lambda e: e.iteration):
        if point.iteration <= iteration:
            entry = sets.setdefault(point.set_name, {"base": None, "before": None, "after": None})
            # The base model alone is no comparison.
            entry["before"] = entry["base"]
            entry["base"] = _as_point(point) if point.iteration == 0 else entry["base"]
            entry["after"] = _as_point(point)
    return accuracy_lines({"evaluations": sets})


def _as_point(point: Evaluated) -> dict[str, object]:
    return {
        "iteration": point.iteration,
        "accuracy": point.accuracy,
        "problems": point.problems,
        "interval95": wilson_interval(point.passed, point.problems),
    }
