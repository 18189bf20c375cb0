"""The address of a tensor in the noise: a 64-bit id made from its name in the checkpoint files.

The name is the one in the safetensors files of the hub layout, not that of a module tree, so that every
engine agrees on it. This module knows neither shapes nor files.
"""

import hashlib


def tensor_id(name: str) -> int:
    """The first 8 bytes, little-endian, of SHA-256 of the checkpoint name in UTF-8; in [0, 2**64).

    Two names of one model with equal ids must be refused by whoever reads the checkpoint.
    """
    return int.from_bytes(hashlib.sha256(name.encode("utf-8")).digest()[:8], "little")
