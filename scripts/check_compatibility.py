"""Check wire, volumes and the definition of DartESJob against those of the last release, in compatibility/.

An operator reads coordinators of the release before, and a cluster holds jobs of any. `--record` makes the
present state the one to compare with, as is done with each release; it decides nothing else.

    python -m scripts.check_compatibility [--record]
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from dartes.spec import job_from_object
from dartes_operator.resources.identity import identity_of
from dartes_operator.resources.pod import PodDefaults
from dartes_operator.resources.run_config import Images, render
from scripts.crd_changes import breaks

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = "compatibility"
DEFINITION: Final = "dartesjobs.dartes.dev.yaml"
PROTOCOL: Final = "protocol.json"
RUN: Final = "run.json"
RELEASE: Final = "release.json"
ACCEPTED: Final = "accepted.yaml"
VERSIONS: Final = {
    "release": ("core/dartes/__init__.py", r'^__version__ = "([^"]+)"$'),
    "protocolVersion": ("core/dartes/rpc/__init__.py", r"^PROTOCOL_VERSION = (\d+)$"),
    "stateVersion": ("core/dartes/state/schema.py", r"^SCHEMA_VERSION = (\d+)$"),
    "journalVersion": ("core/dartes/journal/records.py", r"^FORMAT_VERSION: Final = (\d+)$"),
}
# A suspended job is resumed with the images of the new release, on the volume that the old one wrote.
ON_VOLUMES: Final = ("stateVersion", "journalVersion")
# Workers and coordinators of two protocol versions refuse each other by name; the other services have none.
VERSIONED: Final = "proto/dartes/v1/population.proto"
_HEADER: Final = """\
# Breaks against the last release that are meant: each `break` as `scripts.check_compatibility` says it, and
# `why` it is right. Emptied by --record. What a user must do about one stands in CHANGELOG.md.
"""


@dataclass(frozen=True)
class Accepted:
    """A break that is meant."""

    line: str
    why: str


def judge(found: Sequence[str], accepted: Sequence[Accepted]) -> list[str]:
    """Return what is wrong: breaks that nobody has accepted, and accepted ones that are none (any more)."""
    lines = {entry.line for entry in accepted}
    return [
        *(line for line in found if line not in lines),
        *(
            f"{FOLDER}/{ACCEPTED}: this is no break, remove it: {entry.line}"
            for entry in accepted
            if entry.line not in found
        ),
        *(f"{FOLDER}/{ACCEPTED}: say why: {entry.line}" for entry in accepted if not entry.why.strip()),
    ]


def protocol_breaks(root: Path) -> list[str]:
    """Return what `buf breaking` says against the recorded protocol, without the numbers of lines."""
    against = root / FOLDER / PROTOCOL
    done = _buf(root, "breaking", "--against", str(against), "--error-format", "json")
    problems: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode and not problems:
        raise SystemExit(f"buf failed: {done.stderr}")
    refused = version(root, "protocolVersion") != _recorded(root)["protocolVersion"]
    return [
        f"{problem.get('path', 'proto')}: {problem['message']}"
        for problem in problems
        if not (refused and problem.get("path") == VERSIONED)
    ]


def volume_breaks(root: Path) -> list[str]:
    """Return what is written to volumes in another version than the last release wrote."""
    found = {name: (_recorded(root)[name], version(root, name)) for name in ON_VOLUMES}
    return [
        f"volumes: {name} is {present}, and was {recorded}: a run of the last release can't be resumed"
        for name, (recorded, present) in found.items()
        if present != recorded
    ]


def definition_breaks(root: Path) -> list[str]:
    """Return what the present definition breaks of the recorded one."""
    return [
        f"DartESJob: {line}"
        for line in breaks(_yaml(root / FOLDER / DEFINITION), _yaml(root / "crds" / DEFINITION))
    ]


def pinned_run() -> dict[str, Any]:
    """Return a job as an API server holds it, and the ConfigMap with which this version pins its run."""
    job = {
        "apiVersion": "dartes.dev/v1alpha1",
        "kind": "DartESJob",
        "metadata": {"name": "recorded", "namespace": "lab", "uid": "0f9a4c1e-6f7b-4b6e-9d57-3a2b1c0d9e8f"},
        "spec": {
            "model": {"source": "builtin://addition", "dtype": "Float32"},
            "dataset": {"source": "builtin://addition", "maxProblems": 1000},
            "task": {"kind": "addition"},
            "es": {"populationSize": 32, "batchSize": 128, "iterations": 20},
            "workers": {"replicas": 2, "gpusPerWorker": 0},
            "export": {"destination": "pvc://models/recorded"},
        },
    }
    images = Images("dartes/coordinator:recorded", "dartes/worker:recorded", "dartes/worker-vllm:recorded")
    defaults = PodDefaults("IfNotPresent", (), (), {})
    _, config_map = render(identity_of(job), job_from_object(job).job, images, defaults)
    return {"job": job, "configMap": config_map}


def accepted(root: Path) -> list[Accepted]:
    """Read the breaks that are meant."""
    entries = _yaml(root / FOLDER / ACCEPTED) or []
    return [Accepted(str(entry["break"]), str(entry.get("why") or "")) for entry in entries]


def version(root: Path, name: str) -> str:
    """One of VERSIONS, as its source states it."""
    path, pattern = VERSIONS[name]
    match = re.search(pattern, (root / path).read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise SystemExit(f"{path} has no line like {pattern}")
    return match[1]


def record(root: Path) -> None:
    """Make the present state the one to compare with."""
    folder = root / FOLDER
    folder.mkdir(exist_ok=True)
    done = _buf(root, "build", "--exclude-source-info", "-o", "-#format=json,use_proto_names=true")
    if done.returncode:
        raise SystemExit(f"buf failed: {done.stderr}")
    protocol = json.dumps(json.loads(done.stdout), indent=1) + "\n"
    (folder / PROTOCOL).write_text(protocol, encoding="utf-8")
    (folder / DEFINITION).write_bytes((root / "crds" / DEFINITION).read_bytes())
    (folder / RUN).write_text(json.dumps(pinned_run(), indent=1) + "\n", encoding="utf-8")
    stated = {name: version(root, name) for name in VERSIONS}
    (folder / RELEASE).write_text(json.dumps(stated, indent=1) + "\n", encoding="utf-8")
    (folder / ACCEPTED).write_text(f"{_HEADER}[]\n", encoding="utf-8")


def check(root: Path) -> list[str]:
    """Return what is wrong, one line each."""
    found = [*protocol_breaks(root), *volume_breaks(root), *definition_breaks(root)]
    return judge(found, accepted(root))


def main(arguments: Sequence[str]) -> int:
    """Print what is wrong; exit code 1 where anything is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--record", action="store_true", help="take the present state for the last release's")
    if parser.parse_args(arguments).record:
        record(ROOT)
        print(f"{FOLDER}/ holds the present state, release {version(ROOT, 'release')}")
        return 0
    problems = check(ROOT)
    if problems:
        print("\n".join(problems))
        print(
            f"keep the old form working; or, where the break is meant, add the line to {FOLDER}/{ACCEPTED} "
            "with its reason (of the protocol between workers and coordinator, raise PROTOCOL_VERSION)"
        )
        return 1
    print(f"nothing is broken of release {_recorded(ROOT)['release']}, but what is accepted")
    return 0


def _recorded(root: Path) -> dict[str, str]:
    versions: dict[str, str] = json.loads((root / FOLDER / RELEASE).read_text(encoding="utf-8"))
    return versions


def _buf(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).parent / "buf"
    return subprocess.run([str(program), *words], capture_output=True, text=True, cwd=root, check=False)


def _yaml(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
