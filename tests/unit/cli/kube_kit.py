"""A `kubectl` for tests: a program on the path that answers from a list and records how it was called."""

import json
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PROGRAM = """#!{python}
import json, os, pathlib, subprocess, sys
here = pathlib.Path({folder!r})
words = sys.argv[1:]
given = sys.stdin.buffer.read() if "-i" in words or "-" in words else b""
number = len(list(here.glob("call-*")))
(here / f"call-{{number:03d}}").write_text(json.dumps({{"words": words, "given": given.decode("latin-1")}}))
answers = json.loads((here / "answers.json").read_text())
for position, answer in enumerate(answers):
    if all(part in words or any(part in word for word in words) for part in answer["match"]):
        if answer.get("once"):
            del answers[position]
            (here / "answers.json").write_text(json.dumps(answers))
        if "run" in answer:
            done = subprocess.run(answer["run"], input=given)
            if done.returncode:
                print(f"command terminated with exit code {{done.returncode}}", file=sys.stderr)
            sys.exit(done.returncode)
        sys.stdout.buffer.write(answer.get("out", "").encode())
        sys.stdout.flush()
        sys.stderr.write(answer.get("err", ""))
        sys.exit(answer.get("code", 0))
sys.exit("no answer for " + " ".join(words))
"""


class FakeKubectl:
    """What it answers is set by `on` and friends; the first answer whose words all occur is given."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True)
        program = folder / "kubectl"
        program.write_text(_PROGRAM.format(python=sys.executable, folder=str(folder)))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self._answers: list[dict[str, Any]] = []
        self._write()

    @property
    def path(self) -> str:
        """PATH with this kubectl first."""
        return f"{self._folder}{os.pathsep}{os.environ['PATH']}"

    def on(
        self,
        *match: str,
        out: str = "",
        err: str = "",
        code: int = 0,
        run: list[str] | None = None,
        once: bool = False,
    ) -> None:
        """Answer calls that hold all of these words so; `run` is a program whose streams are the call's."""
        answer: dict[str, Any] = {"match": match, "out": out, "err": err, "code": code, "once": once}
        self._answers.append(answer if run is None else {"match": match, "run": run, "once": once})
        self._write()

    def on_get(self, *match: str, document: Mapping[str, Any], once: bool = False) -> None:
        """Answer `kubectl get` with a document."""
        self.on("get", *match, out=json.dumps(document), once=once)

    def calls(self, *words: str) -> list[dict[str, Any]]:
        """The calls so far that hold all of these words."""
        recorded = [json.loads(path.read_text()) for path in sorted(self._folder.glob("call-*"))]
        return [call for call in recorded if all(word in call["words"] for word in words)]

    def _write(self) -> None:
        (self._folder / "answers.json").write_text(json.dumps(self._answers))


def job(name: str = "tiny", **status: Any) -> dict[str, Any]:
    """A DartESJob as the API server gives it."""
    return {
        "apiVersion": "dartes.dev/v1alpha1",
        "kind": "DartESJob",
        "metadata": {
            "name": name,
            "namespace": "lab",
            "uid": "11111111-2222-3333-4444-555555555555",
            "generation": 1,
            "creationTimestamp": "2026-11-29T12:00:00Z",
            "annotations": {},
        },
        "spec": {"es": {"iterations": 20}},
        "status": status,
    }


def pod(
    name: str, role: str, phase: str = "Running", index: int | None = None, **changes: Any
) -> dict[str, Any]:
    """A pod of a job as the API server gives it; `state` is its container's."""
    labels = {"dartes.dev/job-name": "tiny", "dartes.dev/role": role}
    if index is not None:
        labels["dartes.dev/worker-index"] = str(index)
    status: dict[str, Any] = {"phase": phase, **changes.get("status", {})}
    if "state" in changes:
        status["containerStatuses"] = [{"ready": False, "state": changes["state"]}]
    elif phase == "Running":
        status["containerStatuses"] = [{"ready": True, "state": {"running": {}}}]
    return {
        "metadata": {
            "name": name,
            "labels": labels,
            "creationTimestamp": changes.get("created", "2026-11-29T12:00:05Z"),
        },
        "spec": {"nodeName": changes.get("node", "node1"), **changes.get("spec", {})},
        "status": status,
    }


def listing(*objects: Mapping[str, Any]) -> dict[str, Any]:
    """A list of objects."""
    return {"kind": "List", "items": list(objects)}


def pinned_pod(image: str = "registry.example/dartes/coordinator:1") -> dict[str, Any]:
    """A pod's manifest as the operator pins it."""
    return {
        "metadata": {"labels": {}},
        "spec": {
            "nodeSelector": {"pool": "cpu"},
            "tolerations": [{"key": "spot", "operator": "Exists"}],
            "imagePullSecrets": [{"name": "pull"}],
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "fsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "coordinator",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["python", "-m", "dartes_coordinator"],
                    "env": [
                        {"name": "DARTES_TERMINATION_LOG", "value": "/dev/termination-log"},
                        {"name": "HF_HOME", "value": "/var/cache/dartes/hub"},
                        {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
                    ],
                    "resources": {"limits": {"nvidia.com/gpu": "1"}},
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "volumeMounts": [
                        {"name": "checkpoint", "mountPath": "/var/lib/dartes"},
                        {"name": "tls", "mountPath": "/etc/dartes/tls"},
                        {"name": "cache", "mountPath": "/var/cache/dartes"},
                        {"name": "tmp", "mountPath": "/tmp"},
                    ],
                }
            ],
            "volumes": [
                {"name": "checkpoint", "persistentVolumeClaim": {"claimName": "tiny-checkpoint"}},
                {"name": "tls", "secret": {"secretName": "tiny-tls-coordinator"}},
                {"name": "cache", "emptyDir": {}},
                {"name": "tmp", "emptyDir": {}},
            ],
        },
    }


def run_config_map(**pods: Mapping[str, Any]) -> dict[str, Any]:
    """A run ConfigMap with pinned pods."""
    return {
        "metadata": {"name": "tiny-run-0123456789", "creationTimestamp": "2026-11-29T12:00:01Z"},
        "data": {"pods.json": json.dumps(pods)},
    }
