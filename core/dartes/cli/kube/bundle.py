"""A bundle: all that rebuilds a run's model from its base model, in one small document on one stream.

`python -m dartes.cli.kube.bundle` writes one in a pod; `kubectl dartes export` reads it. It names no file, so
nothing in it can decide where anything is written. A line with its length and SHA-256 goes before it.
"""

import argparse
import base64
import binascii
import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from dartes.destinations.choice import Evaluated, recorded_evaluations
from dartes.errors import ConfigurationError, DartesError, ExitCode, TransientError
from dartes.state import RunFolder

MAGIC: Final = "dartes-bundle"
VERSION: Final = 1
HEADER_BYTES: Final = 200
MOST_BYTES: Final = 256 * 2**20
"""Largest bundle that is read; a thousand iterations of 30 members are 0.5 MB."""


@dataclass(frozen=True)
class Bundle:
    """What a run folder holds, apart from weights.

    `served_dtype` is Float32, BFloat16 or Float16; `first_set` is the evaluation set that Best goes by.
    """

    name: str
    job: str
    journal: bytes
    model_source: str
    model_revision: str | None
    served_dtype: str
    first_set: str | None
    evaluations: tuple[Evaluated, ...]

    def encode(self) -> bytes:
        """The bundle as it goes over a stream."""
        document = {
            "version": VERSION,
            "name": self.name,
            "job": self.job,
            "journal": base64.b64encode(self.journal).decode("ascii"),
            "modelSource": self.model_source,
            "modelRevision": self.model_revision,
            "servedDtype": self.served_dtype,
            "firstSet": self.first_set,
            "evaluations": [asdict(e) for e in self.evaluations],
        }
        body = json.dumps(document, ensure_ascii=False).encode("utf-8")
        return f"{MAGIC} {len(body)} {hashlib.sha256(body).hexdigest()}\n".encode("ascii") + body

    @staticmethod
    def decode(raw: bytes) -> "Bundle":
        """Parse what came over a stream.

        Raises
        ------
        TransientError
            It was cut short or changed on the way.
        ConfigurationError
            It is no bundle, or one of another version.
        """
        body = _checked_body(raw)
        try:
            document: dict[str, Any] = json.loads(body)
            version = document["version"]
            if version != VERSION:
                raise ConfigurationError(
                    f"the job's image writes version {version!r:.20}, this dartes reads {VERSION}; "
                    "install the dartes of the job's images"
                )
            return Bundle(
                name=_text(document["name"]),
                job=_text(document["job"]),
                journal=base64.b64decode(_text(document["journal"]), validate=True),
                model_source=_text(document["modelSource"]),
                model_revision=_optional(document["modelRevision"]),
                served_dtype=_text(document["servedDtype"]),
                first_set=_optional(document["firstSet"]),
                evaluations=tuple(
                    Evaluated(_text(e["set_name"]), int(e["iteration"]), int(e["passed"]), int(e["problems"]))
                    for e in document["evaluations"]
                ),
            )
        except (ValueError, KeyError, TypeError, binascii.Error) as error:
            raise ConfigurationError(f"what the pod sent is no bundle: {error}") from error


def bundle_of(folder: RunFolder, job_file: Path | None = None) -> Bundle:
    """The bundle of a run folder, also of one that a coordinator is writing to; only reads.

    Raises
    ------
    ConfigurationError
        No run has been started in this folder.
    """
    from dartes.spec import load_job

    path = job_file or folder.job
    if not path.is_file() or not folder.journal.is_file():
        raise ConfigurationError(
            f"{folder.path}: no iteration could be committed there yet; nothing to export"
        )
    job = load_job(path)
    spec = job.job.spec
    return Bundle(
        name=job.job.metadata.name,
        job=path.read_text(encoding="utf-8"),
        journal=folder.journal.read_bytes(),
        model_source=spec.model.source,
        model_revision=spec.model.revision,
        served_dtype=spec.served_type,
        first_set=spec.evaluation.sets[0].name if spec.evaluation.sets else None,
        evaluations=tuple(recorded_evaluations(folder)),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the bundle of a run folder to standard output; returns the exit code."""
    parser = argparse.ArgumentParser(prog="dartes.cli.kube.bundle", description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True, help="the run folder; only read")
    parser.add_argument("--job", type=Path, help="job file (default: the folder's own)")
    options = parser.parse_args(arguments)
    try:
        raw = bundle_of(RunFolder(options.run_dir), options.job).encode()
    except DartesError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    sys.stdout.buffer.write(raw)
    sys.stdout.buffer.flush()
    return ExitCode.DONE


def _checked_body(raw: bytes) -> bytes:
    header, newline, body = raw.partition(b"\n")
    words = header[:HEADER_BYTES].decode("ascii", "replace").split(" ")
    if not newline or len(words) != 3 or words[0] != MAGIC or not words[1].isdecimal():
        raise ConfigurationError(f"what the pod sent is no bundle (it begins with {header[:40]!r})")
    if len(body) != int(words[1]) or hashlib.sha256(body).hexdigest() != words[2]:
        raise TransientError(
            f"the bundle was damaged on its way: {len(body)} bytes came of {words[1]}; try again"
        )
    return body


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value


def _optional(value: object) -> str | None:
    return None if value is None else _text(value)


if __name__ == "__main__":
    sys.exit(main())
