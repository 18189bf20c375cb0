"""A model built in the cluster and streamed out of it, for `kubectl dartes export --remote`.

`build`, in a helper pod, takes a bundle and writes a tar stream; `build_there` is its other end. File names
from the stream are taken only where they are plain, and every byte is checked.
"""

import argparse
import hashlib
import io
import json
import os
import secrets
import shutil
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from dartes.checkpoint import PROVENANCE_FILE
from dartes.cli.export import PreparedExport
from dartes.cli.kube.bundle import Bundle
from dartes.cli.kube.fetch import Fetched, helper
from dartes.cli.kube.helper_pod import BUILDER_SECONDS, WORK_MOUNT, builder_pod, pinned
from dartes.cli.kube.kubectl import Kubectl
from dartes.cli.kube.names import EXPORT, READER, WORKER
from dartes.destinations.base import parse_provenance
from dartes.durable import sync_folder
from dartes.errors import ConfigurationError, DartesError, ExitCode, TransientError

SUMS_FILE: Final = "dartes-export.sums"
"""Last in the stream: SHA-256 by file name; its presence says that the stream is whole."""

PROGRAM: Final = (
    "import sys; given = sys.stdin.buffer.read(); from dartes.cli.kube.remote import build; "
    "sys.exit(build(sys.argv[1:], given))"
)
"""Reads its input before anything can go wrong: `kubectl exec` waits for ever for one that ends without."""

MOST_FILES: Final = 10_000
CHUNK: Final = 2**20


def build_there(kubectl: Kubectl, fetched: Fetched, prepared: PreparedExport, output: Path) -> str:
    """Build the model in a pod of the worker's image and bring it here; returns what to print.

    Raises
    ------
    ConfigurationError
        The job's pinned pods can't be read, or the pod refuses (for instance: another base model).
    TransientError
        The pod doesn't start, or the stream breaks; nothing is left behind.
    """
    template = pinned(fetched.run, EXPORT, WORKER)
    if template is None:
        raise ConfigurationError(
            "the job's run ConfigMap isn't there or may not be read, so the worker's image isn't known; "
            "leave --remote out to rebuild the model here"
        )
    name = f"{fetched.bundle.name}-builder-{secrets.token_hex(3)}"
    program = ["python", "-c", PROGRAM, "--work", WORK_MOUNT]
    program += ["--iteration", str(prepared.iteration), "--dtype", prepared.dtype.value]
    with (
        helper(kubectl, builder_pod(fetched.job, template, name)) as pod,
        kubectl.stream(
            "exec",
            "-i",
            pod,
            f"--container={READER}",
            "--",
            *program,
            given=fetched.bundle.encode(),
            seconds=BUILDER_SECONDS,
        ) as stream,
    ):
        receive(stream, output, prepared.row_hash.hex())
    found = parse_provenance((output / PROVENANCE_FILE).read_bytes())
    assert found is not None, "receive has read it"
    return f"{output}: the model after {found.iteration} iterations, weight digest {found.weight_digest}"


def send(model: Path, stream: IO[bytes]) -> None:
    """Write the files of a model folder to a stream, and their sums after them."""
    sums = {}
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(model.iterdir()):
            with path.open("rb") as file:
                sums[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
            archive.add(path, path.name, recursive=False)
        listed = json.dumps(sums).encode("ascii")
        entry = tarfile.TarInfo(SUMS_FILE)
        entry.size = len(listed)
        archive.addfile(entry, io.BytesIO(listed))


def receive(stream: IO[bytes], output: Path, row_hash: str) -> None:
    """Write the files of a stream into a new folder; all of them and right, or nothing.

    Raises
    ------
    TransientError
        The stream ends early or was changed on its way.
    ConfigurationError
        It holds something else than the files of the model with this journal hash.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    partial = output.parent / f".{output.name}.partial-{secrets.token_hex(4)}"
    partial.mkdir()
    try:
        try:
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                listed, found = _unpack(archive, partial)
        except (tarfile.TarError, EOFError) as error:
            raise TransientError(f"the stream from the cluster broke off ({error}); try again") from error
        if listed != found:
            raise TransientError("what came from the cluster is incomplete or damaged; try again")
        provenance = partial / PROVENANCE_FILE
        standing = parse_provenance(provenance.read_bytes()) if provenance.is_file() else None
        if standing is None or standing.journal_hash != row_hash:
            raise ConfigurationError("what came from the cluster is not the model that was asked for")
        sync_folder(partial)
        partial.rename(output)
        sync_folder(output.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _unpack(archive: tarfile.TarFile, folder: Path) -> tuple[object, dict[str, str]]:
    """Write the members as plain files; returns the sums that were sent and those of what was written."""
    listed: object = None
    found: dict[str, str] = {}
    for member in archive:
        source = archive.extractfile(member) if member.isreg() else None
        name = member.name
        if source is None or name in ("", ".", "..") or name != Path(name).name or len(found) >= MOST_FILES:
            raise ConfigurationError(f"the stream holds {name[:80]!r}, which is no file of a model")
        if name == SUMS_FILE:
            listed = json.loads(source.read(CHUNK))
            continue
        total = hashlib.sha256()
        with (folder / name).open("xb") as file:
            while chunk := source.read(CHUNK):
                total.update(chunk)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        found[name] = total.hexdigest()
    return listed, found


def build(arguments: Sequence[str], given: bytes) -> int:
    """Build the model of a bundle and write it to standard output as a tar stream; returns the exit code."""
    from dartes.cli.kube.export import Asked, prepare

    parser = argparse.ArgumentParser(prog="dartes.cli.kube.remote", description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder with room for the model")
    parser.add_argument("--iteration", type=int, required=True)
    parser.add_argument("--dtype", required=True)
    options = parser.parse_args(arguments)
    model = options.work / f"model-{secrets.token_hex(4)}"
    try:
        prepare(Bundle.decode(given), Asked(model, options.iteration, options.dtype)).write(model)
        send(model, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    except DartesError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    finally:
        shutil.rmtree(model, ignore_errors=True)
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(build(sys.argv[1:], sys.stdin.buffer.read()))
