"""The journal's header: fixed by the first worker that registers, compared with by all others.

The coordinator has no weights, so the base model's digest and tensor table come from a worker. Pure.
"""

from dartes.journal import JournalHeader
from dartes.noise import NOISE_VERSION
from dartes.v1 import population_pb2 as wire

from dartes_coordinator.plan import RunPlan


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


def refusals(
    plan: RunPlan, request: wire.RegisterRequest, established: bytes | None, offered: bytes
) -> list[str]:
    """Every reason, in words, why a worker's model, data or algorithm is not this run's."""
    reasons: list[str] = []
    theirs = {d.name: d.digest for d in request.data}
    for name, digest in plan.data_digests.items():
        if theirs.get(name) != digest:
            reasons.append(
                f"data set {name!r}: digest {_short(theirs.get(name))}, the run has {_short(digest)}; "
                "both sides must see the same files"
            )
    if request.algorithm_digest != plan.algorithm_digest:
        reasons.append(
            f"algorithm: digest {_short(request.algorithm_digest)}, the run has {_short(plan.algorithm_digest)}; "
            "it was started with another job file or another version of dartes"
        )
    if request.noise_version != str(NOISE_VERSION):
        reasons.append(f"noise version {request.noise_version!r}, the run has {NOISE_VERSION}")
    if established is None or established == offered:
        return reasons
    header = JournalHeader.decode(established)
    if header.base_digest != request.base_digest:
        reasons.append(
            f"base model: digest {_short(request.base_digest)}, the run has {_short(header.base_digest)}; "
            "check spec.model.source and revision, or whether files of the model folder were changed"
        )
    elif header.tensors != JournalHeader.decode(offered).tensors:
        reasons.append("base model: it trains other tensors than the run")
    if header.data_digest != plan.data_digests["train"]:
        reasons.append("the run was started on another training set")
    return reasons


def _short(digest: str | None) -> str:
    return "none" if not digest else digest[:16]
