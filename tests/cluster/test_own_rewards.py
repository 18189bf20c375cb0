"""Problems and rewards of the user's own in a cluster: a function from a ConfigMap, data on a claim, stages.

Each job must end as the same job file does on one machine, and a graded program must reach nothing of the
pod that it is graded in.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from .jobs import Job, manifest, spec_of, until
from .reference import assert_same_end, run_locally
from .release import Release
from .test_images import idle_pod

REWARD = '''
def reward(prompts, completions, a, b, **columns):
    """Right or wrong, and a little less for each character too many."""
    said = [completion.strip() for completion in completions]
    return [
        1.0 if text == str(x + y) else -0.01 * len(text) for text, x, y in zip(said, a, b, strict=True)
    ]
'''
OWN_REWARD: dict[str, Any] = {
    "kind": "python",
    "prompt": "{a}+{b}=",
    "passThreshold": 1.0,
    "python": {"configMap": {"name": "rewards"}},
}
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "problems"},
    "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "16Mi"}}},
}
PROBLEMS = "".join(json.dumps({"a": a, "b": b}) + "\n" for a in range(10) for b in range(10))
FILL = "import os, pathlib; pathlib.Path('/data/train.jsonl').write_text(os.environ['PROBLEMS'])"


def small(**changes: Any) -> dict[str, Any]:
    """A job of a few short iterations and two workers, evaluated before and after."""
    held_out = {
        "name": "held-out",
        "dataset": {"source": "builtin://addition", "split": "test", "maxProblems": 64},
    }
    usual: dict[str, Any] = {
        "es__iterations": 4,
        "es__populationSize": 8,
        "es__batchSize": 32,
        "evaluation__sets": [held_out],
    }
    return spec_of(**{**usual, **changes})


def of_stages() -> dict[str, Any]:
    """Three iterations of sums, then three with the same data and a reward of the user's own."""
    problems = {"source": "builtin://addition", "split": "train"}
    stages = [
        {**problems, "maxProblems": 100, "iterations": 3},
        {**problems, "maxProblems": 200, "iterations": 3, "task": OWN_REWARD},
    ]
    spec = small(dataset={"stages": stages})
    del spec["es"]["iterations"]
    return spec


def make_reward(release: Release, namespace: str) -> None:
    """The ConfigMap with the reward function."""
    body = {"metadata": {"name": "rewards"}, "data": {"reward.py": REWARD}}
    release.api.core.create_namespaced_config_map(namespace, body)


def test_a_reward_function_from_a_config_map_trains_as_the_file_beside_a_job_file_does(
    release: Release, namespace: str, tmp_path: Path
) -> None:
    make_reward(release, namespace)
    spec = small(task=OWN_REWARD)
    job = Job.create(release.api, namespace, "own", spec)
    folder = "/etc/dartes/reward/rewards"
    # Not when all are ready: one worker may be done before the other one is.
    until(lambda: job.pods("worker") and job.pods("coordinator"), "its pods", 60)
    for role, wanted in (("worker", True), ("coordinator", False)):
        (pod, *_) = job.pods(role)
        mounts = {mount["mountPath"] for mount in pod["spec"]["containers"][0]["volumeMounts"]}
        assert (folder in mounts) is wanted, role
    job.wait_complete()
    local = run_locally(manifest("own", namespace, spec), tmp_path / "own", {"reward.py": REWARD})
    assert_same_end(job, local)


@pytest.mark.full
def test_a_missing_config_map_is_named_and_the_job_heals_when_it_appears(
    release: Release, namespace: str
) -> None:
    job = Job.create(release.api, namespace, "early", small(task=OWN_REWARD))
    condition = job.wait_condition("ResourcesReady", "False", "SecretMissing", seconds=120)
    assert "ConfigMap rewards" in condition["message"]
    assert job.status["failures"]["worker"] == 0, "a pod that never ran charges no budget"
    make_reward(release, namespace)
    job.wait_complete(seconds=400)


def test_a_reward_function_that_raises_fails_the_job_in_its_own_words(
    release: Release, namespace: str
) -> None:
    broken = "def reward(prompts, completions, **columns):\n    raise ValueError('no such colour')\n"
    body = {"metadata": {"name": "rewards"}, "data": {"reward.py": broken}}
    release.api.core.create_namespaced_config_map(namespace, body)
    job = Job.create(release.api, namespace, "raises", small(task=OWN_REWARD))
    failed = job.wait_condition("Failed", reason="InvalidConfiguration", seconds=120)
    assert "no such colour" in failed["message"]


def test_problems_on_a_claim_are_those_of_a_folder(
    release: Release, namespace: str, images: Mapping[str, str], tmp_path: Path
) -> None:
    release.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(CLAIM))
    pod = idle_pod("fill", images["coordinator"], ())
    (container,) = pod["spec"]["containers"]
    container["command"] = ["python", "-c", FILL]
    container["env"] = [{"name": "PROBLEMS", "value": PROBLEMS}]
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "problems"}}]
    pod["spec"]["restartPolicy"] = "Never"
    release.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(pod))
    release.kubectl(
        "wait", "-n", namespace, "--for=jsonpath={.status.phase}=Succeeded", "pod/fill", "--timeout=60s"
    )
    spec = small(dataset={"source": "pvc://problems/train.jsonl"})
    job = Job.create(release.api, namespace, "claimed", spec)
    job.wait_complete()
    for role in ("coordinator", "worker"):
        (pod, *_) = job.pods(role)
        mounts = {mount["mountPath"]: mount for mount in pod["spec"]["containers"][0]["volumeMounts"]}
        assert mounts["/mnt/dartes/pvc/problems"]["readOnly"] is True
    claims = tmp_path / "claims"
    (claims / "problems").mkdir(parents=True)
    (claims / "problems" / "train.jsonl").write_text(PROBLEMS, encoding="utf-8")
    local = run_locally(
        manifest("claimed", namespace, spec), tmp_path / "claimed", environment={"DARTES_CLAIMS": str(claims)}
    )
    assert_same_end(job, local)


def test_a_coordinator_that_dies_at_the_border_of_two_stages_loses_nothing(
    release: Release, namespace: str, tmp_path: Path
) -> None:
    make_reward(release, namespace)
    spec = of_stages()
    reference = run_locally(manifest("staged", namespace, spec), tmp_path / "staged", {"reward.py": REWARD})
    assert len(reference.rows) == 6
    # Once after the last commit of the first stage, once inside the first commit of the second.
    plan = "after-commit:3@1,inside-transaction:1@2"
    spec["coordinator"] = {"env": [{"name": "DARTES_FAULT", "value": plan}]}
    job = Job.create(release.api, namespace, "staged", spec)
    job.wait_complete()
    assert_same_end(job, reference)
    assert job.status["failures"]["coordinator"] == 2
    assert job.status["coordinator"]["incarnation"] == 3


GRADED = '''
import json
from dartes.rewards.opening import GraderContext, open_grader
from dartes.tasks.base import TaskSettings

PROBE = """```python
def probe(what):
    try:
        if what == "network":
            import socket
            socket.create_connection(("127.0.0.1", 8080), 2).close()
        elif what == "key":
            open("/etc/dartes/tls/tls.key", "rb").read(1)
        elif what == "job":
            open("/etc/dartes/run/job.yaml", "rb").read(1)
        elif what == "folder":
            import os
            os.listdir("/etc/dartes/run")
        elif what == "environment":
            import os
            os.environ["DARTES_POD"]
        elif what == "process":
            import os
            os.kill(os.getppid(), 0)
        elif what != "nothing":
            return "?"
    except BaseException as error:
        return type(error).__name__
    return "reached"
```"""

def row(what):
    return {
        "prompt": "def probe(what):\\n    pass\\n",
        "entry_point": "probe",
        "test": f"def check(candidate):\\n    assert candidate({what!r}) == 'reached'\\n",
    }

wanted = ("nothing", "network", "key", "job", "folder", "environment", "process")
task = TaskSettings(kind="code", prompt=None, system=None, answer_format=None, options={})
grader = open_grader(task, GraderContext())
try:
    grades = grader.grade([row(what) for what in wanted], [PROBE] * len(wanted))
    said = grader.sandbox.describe()
finally:
    grader.close()
print(json.dumps({"said": said, **{what: grade.passed for what, grade in zip(wanted, grades)}}))
'''


def test_a_graded_program_reaches_nothing_of_the_pod_that_it_is_graded_in(
    release: Release, namespace: str
) -> None:
    job = Job.create(release.api, namespace, "graders", small(es__iterations=100_000, workers__replicas=1))
    (pod,) = job.wait_ready("worker", 1)
    name = pod["metadata"]["name"]
    there = job.api.execute(namespace, name, "worker", "ls", "/etc/dartes/tls", "/etc/dartes/run")
    assert "tls.key" in there
    assert "job.yaml" in there, "the worker itself has what the program must not reach"
    found = json.loads(
        job.api.execute(namespace, name, "worker", "python", "-c", GRADED).strip().splitlines()[-1]
    )
    sys.stdout.write(f"confinement in a restricted pod: {found.pop('said')}\n")
    assert found.pop("nothing"), "a program that asks for nothing runs"
    assert found == dict.fromkeys(found, False)
    job.delete()
    until(lambda: not job.exists(), "the job is gone", 60)
