"""Which GPUs of this machine each local worker gets: the next ones in turn, beginning anew after the last.

Looks at what the driver and the environment show; imports no torch.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
_DRIVER: Final = Path("/proc/driver/nvidia/gpus")


def visible_gpus(environment: Mapping[str, str], driver: Path = _DRIVER) -> list[str]:
    """The GPUs that a process may use, as `CUDA_VISIBLE_DEVICES` names them; empty where there are none."""
    named = environment.get(VISIBLE)
    if named is not None:
        return [one.strip() for one in named.split(",") if one.strip()]
    return [str(number) for number, _ in enumerate(driver.iterdir())] if driver.is_dir() else []


def gpus_of_worker(index: int, each: int, visible: Sequence[str]) -> dict[str, str]:
    """What is set in the environment of worker `index`; nothing where it uses none, or none is known."""
    if each == 0 or not visible:
        return {}
    first = index * each
    return {VISIBLE: ",".join(visible[(first + at) % len(visible)] for at in range(min(each, len(visible))))}
