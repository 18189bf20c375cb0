"""Does the noise contract hold on this GPU? One command, a line per check, and an exit code.

The kernels and both placements of the master weights are compared bit for bit with the CPU, writes and
updates are timed beside a copy within the device's memory, and with `--model` a vLLM engine is written and
restored. Exit code 0: all passed; 1: something failed; 2: there is no GPU. `--interpreter` runs the
comparisons without a GPU, on small sizes. See `docs/gpu-check.md`.

Usage: python -m bench.gpu_check [--model FOLDER] [--interpreter]
"""

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import torch

Check: TypeAlias = Callable[[], str]
"""Returns what it has compared or measured, in words; AssertionError says what differs."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One line of the report."""

    name: str
    passed: bool
    detail: str


def judged(name: str, check: Check) -> Outcome:
    """Run a check; a crash of a kernel or a library is a failure like a wrong bit."""
    try:
        return Outcome(name, True, check())
    except AssertionError as error:
        return Outcome(name, False, str(error))
    except Exception as error:  # noqa: BLE001 - the report must name the rest too
        traceback.print_exc()
        return Outcome(name, False, f"{type(error).__name__}: {error}")


def checks(device: "torch.device", model: Path | None) -> Iterator[tuple[str, Check]]:
    """What is to be checked on a device, in order; on a CPU (in the interpreter) only what compares bits."""
    from bench import gpu_bits_support as bits
    from bench import gpu_speed_support as speed

    scale = bits.SMALL if device.type == "cpu" else bits.FULL
    yield "rounding", lambda: bits.rounding(device, scale)
    yield "write a member", lambda: bits.writing(device, scale)
    yield "write rows of a slice", lambda: bits.slices(device)
    yield "NaN, infinities, subnormal numbers", lambda: bits.special(device)
    yield "apply updates", lambda: bits.updates(device, scale)
    yield "digests", lambda: bits.digests(device, scale)
    yield "master on the device", lambda: bits.memory(device, scale, streamed=False)
    yield "master streamed from the host", lambda: bits.memory(device, scale, streamed=True)
    if device.type != "cpu":
        yield "addresses beyond 2^31", lambda: bits.far_addresses(device)
        yield "speed of writes and updates", lambda: speed.measured(device)
    if model is not None:
        yield "vLLM engine", lambda: engine(model, str(device))


def engine(folder: Path, device: str) -> str:
    """vLLM serves the model: the digest of what it reads is the expected one, and answers come back."""
    import torch

    from dartes.checkpoint import open_checkpoint
    from dartes.noise import ServedDtype
    from dartes_worker.engines.base import GenerationLimits
    from dartes_worker.engines.vllm.engine import VllmEngine

    torch.cuda.empty_cache()
    served = ServedDtype.BFLOAT16
    checkpoint = open_checkpoint(folder)
    loaded = VllmEngine.load(folder, checkpoint, served, os.cpu_count() or 1, device)
    try:
        replica = loaded.open_replica()
        replica.load_base(b"\0" * 32)
        group = [[5 + k, 17, 29 + k] for k in range(8)]
        limits = GenerationLimits(max_new_tokens=16)
        replica.write(0, 0.0)
        expected, held = replica.served_digests()
        assert held == expected, "the served digest is not that of the rounded master"
        before = loaded.generate(group, limits, None)
        for seed in range(1, 6):
            replica.write(seed, 1e-2)
        assert replica.served_digests()[1] != expected, "members were written, but the digest is the same"
        replica.write(0, 0.0)
        assert replica.served_digests()[1] == expected, "the parent is not restored after five members"
        after = loaded.generate(group, limits, None)
        assert after == before, "the parent answers otherwise after five members"
    finally:
        loaded.close()
    return f"{folder}: digest and {sum(a.token_count for a in before)} greedy tokens the same after 5 members"


def main(arguments: list[str]) -> int:
    """Check, report, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu_check", description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="a model folder: also check a vLLM engine on it")
    parser.add_argument("--interpreter", action="store_true", help="compare on this CPU, without a GPU")
    options = parser.parse_args(arguments)
    if options.interpreter:
        # Triton reads it when it is first imported, which nothing has done yet.
        os.environ["TRITON_INTERPRET"] = "1"
    import numpy as np
    import torch

    if options.interpreter:
        device = torch.device("cpu")
        print("Triton's interpreter on this CPU, small sizes")
    elif torch.cuda.is_available():
        device = torch.device("cuda", torch.cuda.current_device())
        print(f"{torch.cuda.get_device_name(device)}, PyTorch {torch.__version__}")
    else:
        print("no GPU: PyTorch finds no CUDA device; `--interpreter` runs the comparisons on this CPU")
        return 2
    model = options.model
    skipped = ""
    if model is not None and (options.interpreter or find_spec("vllm") is None):
        skipped = "the interpreter runs no model" if options.interpreter else "vLLM is not installed"
        model = None
    outcomes = []
    for name, check in checks(device, model):
        # NumPy, which interprets, would warn of the overflows that are among the comparisons.
        with np.errstate(over="ignore", invalid="ignore"):
            outcome = judged(name, check)
        outcomes.append(outcome)
        print(f"{'pass' if outcome.passed else 'FAIL'}  {outcome.name}: {outcome.detail}", flush=True)
    failed = sum(not outcome.passed for outcome in outcomes)
    if skipped:
        print(f"FAIL  vLLM engine: not checked: {skipped}")
        failed += 1
    print(f"{len(outcomes) - failed + bool(skipped)} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
