"""The noise contract (version 1): any number of the perturbation, for any element, on its own.

`docs/noise.md` is the normative specification. Everything here works on integers and single rounded
float32 operations; nothing here knows of models, files, engines or the algorithm.
"""

from dartes.noise.dtypes import ServedDtype
from dartes.noise.tensors import tensor_id

__all__ = ["NOISE_VERSION", "ServedDtype", "tensor_id"]

NOISE_VERSION = 1
"""Version of `docs/noise.md` that this code implements; part of every journal header."""
