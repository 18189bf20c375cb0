"""What this project adds to vLLM's worker processes: the master weights, and all that is done with them.

vLLM makes this class a base of its own worker class (`worker_extension_cls`), so that the methods run where
the model is, one call per rank through `collective_rpc`. Only names, seeds, coefficients and digests travel.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dartes.checkpoint import open_checkpoint, read_snapshot
from dartes.noise import ServedDtype
from dartes.noise.reference import UpdateRow
from dartes.spec.roles import MasterPlacement
from dartes_worker.engines.vllm.mapping import locate, served_tensors
from dartes_worker.engines.vllm.trouble import told
from dartes_worker.kernel_memory import prepare_kernels
from dartes_worker.weights.host import HostMemory
from dartes_worker.weights.memory import ServedMemory
from dartes_worker.weights.shard import Parts, Shard
from dartes_worker.weights.stretch import Stretch

EXTENSION = f"{__name__}.WeightsExtension"


@dataclass(frozen=True, slots=True)
class Digests:
    """D per tensor of what a rank owns: as the master rounds, and as the engine's tensors read."""

    rounded: Parts
    served: Parts
    copies_agree: bool
    """Whether what another rank owns is served here too as this rank's master says."""


class WeightsExtension:
    """Mixed into vLLM's worker; every name begins with `dartes_`, since vLLM refuses clashes."""

    model_runner: Any
    """vLLM's; holds the model."""

    rank: int
    """vLLM's; this process among those that share the model."""

    dartes_shard: Shard | None = None
    dartes_stretches: tuple[Stretch, ...] = ()

    @told
    def dartes_locate(self, folder: str) -> tuple[Stretch, ...]:
        """Find out where this rank serves the elements of the checkpoint in `folder`.

        Leaves the model's trained elements undefined: the parent has to be written next.
        """
        return locate(self.dartes_model(), open_checkpoint(Path(folder)).trainable)

    @told
    def dartes_hold(
        self,
        stretches: Sequence[Sequence[Stretch]],
        served: ServedDtype,
        placement: MasterPlacement,
        threads: int,
    ) -> None:
        """Take note of what this rank serves, and of where its master is to lie; `stretches` is by rank."""
        prepare_kernels()
        self.dartes_stretches = tuple(stretches[self.rank])
        self._dartes_settings = (served, placement, threads)

    @told
    def dartes_load(self, folder: str, snapshot: str | None) -> None:
        """Read the master: the base model's in `folder`, or a snapshot's."""
        served, placement, threads = self._dartes_settings
        if self.dartes_shard is None:
            targets = {stretch.target for stretch in self.dartes_stretches}
            flat = {name: one for name, one in served_tensors(self.dartes_model()).items() if name in targets}
            self.dartes_shard = _shard(flat, self.dartes_stretches, served, placement, threads)
        source = (
            open_checkpoint(Path(folder)) if snapshot is None else read_snapshot(Path(snapshot), verify=False)
        )
        self.dartes_shard.load(source)

    @told
    def dartes_discard(self) -> None:
        """Free the master."""
        self.dartes_shard = None

    @told
    def dartes_write(self, seed: int, sigma: float) -> None:
        """Serve a member or the parent."""
        self._dartes_weights.write(seed, sigma)
        self._dartes_wait()

    @told
    def dartes_update(self, rows: Sequence[UpdateRow]) -> None:
        """Apply consecutive iterations."""
        self._dartes_weights.update(rows)
        self._dartes_wait()

    @told
    def dartes_digest(self) -> Parts:
        """D of the master."""
        return self._dartes_weights.digest()

    @told
    def dartes_served_digests(self) -> Digests:
        """D of the rounded master and of what is served."""
        weights = self._dartes_weights
        return Digests(weights.digest_rounded(), weights.digest_served(), weights.copies_agree())

    @told
    def dartes_write_snapshot(self, file: str, offsets: Mapping[str, int]) -> None:
        """Write what this rank owns into a snapshot under way."""
        self._dartes_weights.write_values(Path(file), offsets)

    @told
    def dartes_model_digest(self) -> str:
        """Digest of every float tensor of the model as it is served: to tell whether anything changed."""
        return model_digest(self.dartes_model())

    def dartes_model(self) -> torch.nn.Module:
        """The model of this rank."""
        model: torch.nn.Module = self.model_runner.get_model()
        return model

    def _dartes_wait(self) -> None:
        """Until the device is done, so that time and faults are counted where they arise."""
        device = next(self.dartes_model().parameters()).device
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    @property
    def _dartes_weights(self) -> Shard:
        assert self.dartes_shard is not None, "weights are loaded before they are used"
        return self.dartes_shard


def _shard(
    flat: Mapping[str, torch.Tensor],
    stretches: Sequence[Stretch],
    served: ServedDtype,
    placement: MasterPlacement,
    threads: int,
) -> Shard:
    device = next(iter(flat.values())).device
    memories: dict[str, ServedMemory]
    if device.type == "cpu":
        memories = {name: HostMemory(tensor, served) for name, tensor in flat.items()}
        return Shard(memories, stretches, threads)
    from dartes_worker.weights.device import DeviceMemory
    from dartes_worker.weights.streamed import StreamedMemory

    kind = DeviceMemory if placement is MasterPlacement.DEVICE else StreamedMemory
    memories = {name: kind(tensor, served) for name, tensor in flat.items()}
    return Shard(memories, stretches, in_pieces=False)


def model_digest(model: torch.nn.Module) -> str:
    """SHA-256 over the bytes of every parameter and buffer, in the order of their names."""
    import hashlib

    total = hashlib.sha256()
    for name, tensor in sorted([*model.named_parameters(), *model.named_buffers()]):
        total.update(name.encode())
        flat = tensor.detach().reshape(-1)
        for first in range(0, flat.numel(), 2**22):
            total.update(flat[first : first + 2**22].cpu().contiguous().view(torch.uint8).numpy().data)
    return total.hexdigest()
