"""The commands of docs/operations.md with which a run is copied and restored, followed word by word."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from .held import ROOT, HeldCluster, program
from .jobs import Job, Object, make_disturbed_engine, manifest, spec_of, with_disturbed_engine
from .reference import assert_same_end, run_locally
from .releases import Releases

PAGE = ROOT / "docs" / "operations.md"
HEADING = "## Backing a run up"
CODE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ITERATIONS = 12


def commands() -> list[str]:
    """The section's blocks of commands, in their order."""
    section = PAGE.read_text(encoding="utf-8").partition(f"\n{HEADING}\n")[2].partition("\n## ")[0]
    return [text for language, text in CODE.findall(section) if not language]


def follow(cluster: HeldCluster, folder: Path, namespace: str, job: str) -> None:
    """Run all of them in one shell, as somebody would who has this cluster's kubeconfig."""
    names = f"export NS={namespace} JOB={job}\n"
    context = f'kubectl() {{ command kubectl --context {cluster.context} "$@"; }}\n'
    path = f"{Path(program('kubectl')).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", names + context + "".join(commands())],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "PATH": path},
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def spec(checkpoint: Object | None) -> Object:
    """A short run."""
    return spec_of(
        es__iterations=ITERATIONS,
        es__populationSize=8,
        es__batchSize=32,
        evaluation={"sets": []},
        checkpoint=checkpoint,
    )


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_run_restored_from_a_copy_of_its_volume_ends_as_if_nothing_had_happened(
    cluster: HeldCluster, releases: Releases, namespace: str, tmp_path: Path
) -> None:
    reference = run_locally(manifest("copied", "", spec(None)), tmp_path / "reference")
    release = releases(namespace)
    make_disturbed_engine(release.api, namespace)
    copied = spec({"volume": {"size": "64Mi"}, "retentionPolicy": "Delete"})
    copied["workers"] = with_disturbed_engine(copied["workers"], 0.2)
    job = Job.create(release.api, namespace, "copied", copied)
    job.wait_rows(2)
    follow(cluster, tmp_path, namespace, "copied")
    restored = Job.create(
        release.api,
        namespace,
        "again",
        spec({"resumeFrom": {"claimName": "restored"}}),
    )
    status = restored.wait_complete(240)
    assert status["coordinator"]["incarnation"] > 1, "it went on from what the copy holds"
    assert_same_end(restored, reference)
    job.wait_complete(240)
    assert_same_end(job, reference)
