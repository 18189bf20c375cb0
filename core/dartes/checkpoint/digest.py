"""The digest of a model's float32 weights: one number per tensor, one SHA-256 over all of them.

`D(tensor)` is the sum that `dartes.noise` computes, which adds over shards and pieces; this module only
combines. See `docs/noise.md`, Digest.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class WeightDigest:
    """Digest of a set of weights: `total` as hex, and D of every tensor to name the one that differs."""

    total: str
    tensors: Mapping[str, int]

    def differing(self, other: "WeightDigest") -> tuple[str, ...]:
        """Names of the tensors whose D differs, or that only one side has."""
        names = sorted(self.tensors.keys() | other.tensors.keys())
        return tuple(name for name in names if self.tensors.get(name) != other.tensors.get(name))


def weight_digest(shapes: Iterable[tuple[str, tuple[int, ...]]], parts: Mapping[str, int]) -> WeightDigest:
    """Combine D per tensor (taken modulo 2**64) into the digest of the whole.

    The total is the SHA-256 of one line per tensor, sorted by name: the JSON array of the name, the shape
    and D as 16 hex digits, without spaces, non-ASCII characters escaped, with a line feed after it.
    """
    total = hashlib.sha256()
    reduced: dict[str, int] = {}
    for name, shape in sorted(shapes):
        reduced[name] = parts[name] % 2**64
        line = json.dumps([name, list(shape), f"{reduced[name]:016x}"], separators=(",", ":"))
        total.update(line.encode("ascii") + b"\n")
    return WeightDigest(total.hexdigest(), reduced)
