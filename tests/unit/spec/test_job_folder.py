"""A run folder's job remembers where the job file was, for what belongs to its reward still is there."""

from pathlib import Path

import pytest

from dartes.spec.dump import JOB_FOLDER, dump_job
from dartes.spec.load import parse_job_text

JOB = """
apiVersion: dartes.dev/v1alpha1
kind: DartESJob
metadata:
  name: own
spec:
  model:
    source: builtin://addition
  dataset:
    source: builtin://addition
  task: {task}
  es:
    iterations: 1
"""

PYTHON = "{kind: python, prompt: '{a}', python: {function: 'reward:reward'}}"
MODEL = "{kind: instruction, options: {rewardModel: ./rm}}"
SERVICE = "{kind: instruction, options: {rewardService: 'http://r/'}}"


@pytest.mark.parametrize("task", [PYTHON, MODEL])
def test_a_reward_beside_the_job_file_is_found_from_the_run_folder(task: str) -> None:
    job = parse_job_text(JOB.replace("{task}", task), "job.yaml", Path("/home/me"))
    text = dump_job(job.job, job.base_dir)
    again = parse_job_text(text, "runs/own/job.yaml", Path("/runs/own"))
    assert again.base_dir == Path("/home/me")
    assert dump_job(again.job, again.base_dir) == text
    assert again.job.spec.task == job.job.spec.task


@pytest.mark.parametrize("task", ["{kind: addition}", SERVICE])
def test_a_job_that_needs_no_file_remembers_no_folder(task: str) -> None:
    job = parse_job_text(JOB.replace("{task}", task), "job.yaml", Path("/home/me"))
    assert JOB_FOLDER not in dump_job(job.job, job.base_dir)


def test_a_job_written_for_no_folder_names_none() -> None:
    job = parse_job_text(JOB.replace("{task}", PYTHON), "job.yaml", Path("/home/me"))
    assert JOB_FOLDER not in dump_job(job.job)
