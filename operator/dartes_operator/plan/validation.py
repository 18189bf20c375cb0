"""Whether a job's spec can be acted on, and the spec of the run that is under way.

The rules are those of a job file; only the way in differs.
"""

import json
from functools import lru_cache

from dartes.spec import DartESJob, InvalidJobError, job_from_object
from dartes.spec.yaml_text import read_yaml
from dartes_operator.plan.types import Manifest

MOST_PROBLEMS = 5


def read_job(job: Manifest) -> DartESJob:
    """Check a job as the API server gives it; raises InvalidJobError with all problems."""
    kept = {name: job[name] for name in ("apiVersion", "kind", "spec") if name in job}
    meta = {name: job["metadata"][name] for name in ("name", "namespace")}
    return _read(json.dumps({**kept, "metadata": meta}, sort_keys=True))


@lru_cache(maxsize=1024)
def _read(text: str) -> DartESJob:
    # A job is planned many times for each time that its spec changes.
    return job_from_object(json.loads(text)).job


@lru_cache(maxsize=512)
def read_pinned(text: str) -> DartESJob | None:
    """The job of a run ConfigMap; None where this version can't read it."""
    value = read_yaml(text).value
    if not isinstance(value, dict):
        return None
    try:
        return job_from_object(value).job
    except InvalidJobError:
        return None


def words(error: InvalidJobError) -> str:
    """The problems in one line, as a condition shows them."""
    shown = [
        f"{problem.path}: {problem.message}" if problem.path else problem.message
        for problem in error.problems
    ]
    more = len(shown) - MOST_PROBLEMS
    return "; ".join(shown[:MOST_PROBLEMS]) + (f"; and {more} more problems" if more > 0 else "")
