"""Devices that a plan can be made for: memory, memory bandwidth and arithmetic, from the makers' data sheets.

Figures are those of `docs/cost.md`, which names each source. What share of them a run reaches is `cost`'s.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dartes.errors import ConfigurationError

GIB: Final = 2**30

NOISE_OPERATIONS: Final = 25.0
"""Operations of 32 bits per number of noise: an eighth of a Philox block, a look-up, an addition."""

NOISE_SHARE: Final = 0.03
"""Of a GPU's dense bfloat16 operations, what 32-bit integer arithmetic reaches: assumed, not measured."""


@dataclass(frozen=True, slots=True)
class Device:
    """Bytes of memory, bytes per second from and to it, and dense bfloat16 operations per second."""

    name: str
    memory_bytes: int
    bandwidth: float
    operations: float
    noise_rate: float | None = None

    @property
    def noise(self) -> float:
        """Numbers of noise per second: as given, else by the arithmetic that a GPU has for integers."""
        return self.noise_rate or self.operations * NOISE_SHARE / NOISE_OPERATIONS


def cpu_threads(count: int) -> Device:
    """So many threads of the CPU that this project is measured on, an Intel Xeon of family 6, model 207.

    Given such that the shares of `cost` lead to what was measured: 75e9 operations, 12e9 bytes and 0.6e9
    numbers of noise per second and thread.
    """
    return Device(f"{count} CPU thread{'s' * (count > 1)}", 0, 17e9 * count, 214e9 * count, 0.6e9 * count)


DEVICES: Final[Mapping[str, Device]] = {
    one.name: one
    for one in (
        Device("A10", 24 * GIB, 600e9, 125e12),
        Device("A100-40", 40 * GIB, 1_555e9, 312e12),
        Device("A100-80", 80 * GIB, 2_039e9, 312e12),
        Device("H100", 80 * GIB, 3_350e9, 989e12),
        Device("H200", 141 * GIB, 4_800e9, 989e12),
        Device("L4", 24 * GIB, 300e9, 121e12),
        Device("L40S", 48 * GIB, 864e9, 362e12),
        Device("RTX4090", 24 * GIB, 1_008e9, 165e12),
    )
}


def device_named(name: str) -> Device:
    """The device of a name, whatever its case; ConfigurationError lists those there are."""
    found = {known.lower(): device for known, device in DEVICES.items()}.get(name.lower())
    if found is None:
        raise ConfigurationError(f"--gpu {name}: must be one of {', '.join(sorted(DEVICES))}")
    return found
