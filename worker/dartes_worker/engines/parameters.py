"""The map from checkpoint elements to the served tensors' memory, for models that `transformers` loaded.

Most tensors are served under their own name and in their own order; their values prove it. Those that the
loader renames, fuses or permutes are located by a probe load (`probe.py`). Nothing is assumed per family.
"""

from collections.abc import Mapping
from typing import Any, Final

import torch

from dartes.checkpoint import Checkpoint, TensorInfo
from dartes.errors import ConfigurationError
from dartes.noise import ServedDtype
from dartes_worker.engines.base import Segment, check_coverage
from dartes_worker.engines.probe import locate
from dartes_worker.engines.storage import TORCH_DTYPES, storage_of

_PIECE: Final = 2**20
"""Elements compared at a time: 4 MiB of float32."""


def parameter_segments(model: Any, checkpoint: Checkpoint, served: ServedDtype) -> list[Segment]:
    """Return segments that cover every trained element of `checkpoint` exactly once, sorted by (name, start).

    Also checks that every parameter of the model is covered, so that none keeps unperturbed values.
    Raises ConfigurationError that names the tensors for which there is no such map.
    """
    targets = served_tensors(model)
    direct = _direct_matches(targets, _owners(model), checkpoint, TORCH_DTYPES[served])
    found = {(name, 0): (target, 0, checkpoint.tensors[name].count) for name, target in direct.items()}
    open_sources = [info for info in checkpoint.trainable if info.name not in direct]
    kept = {item.info.name for item in checkpoint.left_alone}
    open_targets = targets.keys() - set(direct.values()) - kept
    if open_sources:
        for run in locate(model, open_sources, open_targets, served_tensors):
            found[run.source, run.start] = (run.target, run.offset, run.count)
    segments = [
        Segment(name, start, count, storage_of(targets[target][offset : offset + count], served))
        for (name, start), (target, offset, count) in sorted(found.items())
    ]
    where = f"{checkpoint.folder} ({type(model).__name__})"
    check_coverage({info.name: info.count for info in checkpoint.trainable}, segments, where)
    covered = dict.fromkeys(targets, 0)
    for target, _, count in found.values():
        covered[target] += count
    shared = [name for name, tensor in targets.items() if covered[name] > tensor.numel()]
    if shared:
        raise ConfigurationError(
            f"{where}: several trained tensors of the files are one in the model: {', '.join(shared[:5])}; "
            "set tie_word_embeddings in config.json as the files are"
        )
    parameters = {parameter.data_ptr() for parameter in model.parameters()}
    unwritten = [
        name
        for name, tensor in targets.items()
        if covered[name] < tensor.numel() and tensor.data_ptr() in parameters
    ]
    if unwritten:
        raise ConfigurationError(
            f"{where}: parameters that no trained tensor of the files reaches: {', '.join(unwritten[:5])}; "
            "this engine can't train this model"
        )
    return segments


def served_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the model's float tensors as flat views by module name; tied ones once, under the first name."""
    # `reshape` is a view here: `load_model` leaves every tensor contiguous.
    owners = set(_owners(model).values())
    return {name: tensor.reshape(-1) for name, tensor in model.state_dict().items() if name in owners}


def _owners(model: torch.nn.Module) -> dict[str, str]:
    """Return module name -> first module name of the same memory, for every float tensor."""
    first: dict[int, str] = {}
    return {
        name: first.setdefault(tensor.data_ptr(), name)
        for name, tensor in model.state_dict().items()
        if tensor.is_floating_point() and tensor.numel()
    }


def _direct_matches(
    targets: Mapping[str, torch.Tensor],
    owners: Mapping[str, str],
    checkpoint: Checkpoint,
    dtype: torch.dtype,
) -> dict[str, str]:
    """Return checkpoint name -> owner's module name where the served values are the checkpoint's in order."""
    # Two passes: exact names first, so that a tensor of equal values elsewhere can't take their place.
    matches: dict[str, str] = {}
    for info in checkpoint.trainable:
        owner = owners.get(info.name)
        if owner is not None and _same_values(info, checkpoint, targets[owner], dtype):
            matches[info.name] = owner
    taken = set(matches.values())
    for info in checkpoint.trainable:
        if info.name in matches:
            continue
        candidates = [
            name
            for name, tensor in targets.items()
            if name not in taken
            and tensor.numel() == info.count
            and _one_ends_with_the_other(name, info.name)
            and _same_values(info, checkpoint, tensor, dtype)
        ]
        if len(candidates) == 1:
            matches[info.name] = candidates[0]
            taken.add(candidates[0])
    return matches


def _one_ends_with_the_other(left: str, right: str) -> bool:
    """Whether the names differ by a prefix alone, as between a bare model and one with a head."""
    return left.endswith(f".{right}") or right.endswith(f".{left}")


def _same_values(info: TensorInfo, checkpoint: Checkpoint, flat: torch.Tensor, dtype: torch.dtype) -> bool:
    if flat.numel() != info.count:
        return False
    for start in range(0, info.count, _PIECE):
        count = min(_PIECE, info.count - start)
        stored = torch.from_numpy(checkpoint.read_f32(info.name, start, count))
        if flat.dtype is not torch.float32:
            stored = stored.to(dtype)
        bits = torch.int32 if flat.dtype is torch.float32 else torch.int16
        if not torch.equal(stored.view(bits), flat[start : start + count].cpu().view(bits)):
            return False
    return True
