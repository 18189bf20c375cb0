"""Who may take part: the first worker fixes the journal's header, all others are compared with it.

The coordinator has no weights, so the base model's digest and tensor table come from a worker. Pure.
"""

import json
from typing import Any, Final

from dartes.journal import JournalHeader
from dartes.noise import NOISE_VERSION
from dartes.rpc import PROTOCOL_VERSION
from dartes.v1 import population_pb2 as wire
from dartes_coordinator.errors import RefusedError
from dartes_coordinator.plan import RunPlan

REWARD = "reward"
"""Name under which a worker lists the digest of the user's own reward source, beside its data sets."""

_MATTERS_MOST: Final = {"engine": 0, "device": 1, "dtype": 2}


def admit(
    plan: RunPlan,
    request: wire.RegisterRequest,
    established: bytes | None,
    reward_digest: str | None = None,
) -> bytes:
    """The run's journal header, if this worker may take part.

    `established` is the header that the run's first worker brought along, and `reward_digest` what the first
    one of this incarnation grades with (see `reward_of`); None before they came.

    Raises
    ------
    RefusedError
        Names every digest that differs.
    """
    offered = header_for(plan, request)
    reasons = [*_caller_reasons(request), *_plan_reasons(plan, request)]
    if established is not None and established != offered:
        reasons += _header_reasons(JournalHeader.decode(established), JournalHeader.decode(offered))
    if reward_digest is not None and reward_of(request) != reward_digest:
        reasons.append(
            f"reward source: digest {_short(reward_of(request))}, the run has {_short(reward_digest)}; "
            "all workers must have the same reward function, from the same image or ConfigMap"
        )
    if reasons:
        raise RefusedError(f"worker {request.worker} cannot take part: " + "; ".join(reasons))
    return offered if established is None else established


def engine_of(request: wire.RegisterRequest) -> str:
    """The worker's engine fingerprint in canonical JSON; empty where it has none."""
    return json.dumps(json.loads(request.fingerprint), sort_keys=True) if request.fingerprint else ""


def engine_difference(mine: str, other: str) -> str:
    """In what two different engine fingerprints differ, for people: "engine 'vllm', not 'transformers'"."""
    ours, theirs = _flat(json.loads(mine)), _flat(json.loads(other))
    return ", ".join(
        f"{name} {ours.get(name, 'none')!r}, not {theirs.get(name, 'none')!r}"
        for name in dict.fromkeys([*ours, *theirs])
        if ours.get(name) != theirs.get(name)
    )


def reward_of(request: wire.RegisterRequest) -> str:
    """Digest of the reward source that the worker would grade with; empty where the job has none."""
    return next((d.digest for d in request.data if d.name == REWARD), "")


def header_for(plan: RunPlan, request: wire.RegisterRequest) -> bytes:
    """The header as this worker's model and the plan make it, in canonical bytes."""
    return JournalHeader(
        noise_version=NOISE_VERSION,
        run_seed=plan.settings.seed,
        algorithm_digest=plan.algorithm_digest,
        algorithm_fields=plan.algorithm_fields,
        base_digest=request.base_digest,
        data_digest=plan.data_digests["train"],
        tensors=tuple(sorted((t.name, tuple(t.shape)) for t in request.tensors)),
    ).encode()


def _caller_reasons(request: wire.RegisterRequest) -> list[str]:
    reasons = []
    if not request.worker:
        reasons.append("it has no name")
    if request.protocol != PROTOCOL_VERSION:
        reasons.append(f"protocol {request.protocol}, the coordinator speaks {PROTOCOL_VERSION}")
    if request.fingerprint and not _is_object(request.fingerprint):
        reasons.append("its engine fingerprint is not a JSON object")
    return reasons


def _plan_reasons(plan: RunPlan, request: wire.RegisterRequest) -> list[str]:
    theirs = {d.name: d.digest for d in request.data}
    reasons = [
        f"data set {name!r}: digest {_short(theirs.get(name))}, the run has {_short(digest)}; "
        "both sides must see the same files"
        for name, digest in plan.data_digests.items()
        if theirs.get(name) != digest
    ]
    if request.algorithm_digest != plan.algorithm_digest:
        reasons.append(
            f"algorithm: digest {_short(request.algorithm_digest)}, the run has "
            f"{_short(plan.algorithm_digest)}; it was started with another job file or another version of "
            "dartes"
        )
    if request.noise_version != str(NOISE_VERSION):
        reasons.append(f"noise version {request.noise_version!r}, the run has {NOISE_VERSION}")
    return reasons


def _header_reasons(run: JournalHeader, offered: JournalHeader) -> list[str]:
    reasons = []
    if run.base_digest != offered.base_digest:
        reasons.append(
            f"base model: digest {_short(offered.base_digest)}, the run has {_short(run.base_digest)}; "
            "check spec.model.source and revision, or whether files of the model folder were changed"
        )
    elif run.tensors != offered.tensors:
        reasons.append("base model: it trains other tensors than the run")
    if run.data_digest != offered.data_digest:
        reasons.append("the run was started on another training set")
    if run.noise_version != offered.noise_version:
        reasons.append(
            f"the run was started with noise version {run.noise_version}, this dartes makes "
            f"{offered.noise_version}; use the version that started it"
        )
    return reasons


def _flat(fingerprint: dict[str, Any]) -> dict[str, Any]:
    """The engine and its device first; the entries of nested objects under their own names."""
    flat: dict[str, Any] = {}
    for name in sorted(fingerprint, key=lambda name: (_MATTERS_MOST.get(name, len(_MATTERS_MOST)), name)):
        value = fingerprint[name]
        flat |= {f"{name}.{key}": value[key] for key in value} if isinstance(value, dict) else {name: value}
    return flat


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _short(digest: str | None) -> str:
    return "none" if not digest else digest[:16]
