"""The worker beside the method of the published code of ES for language models, on the same vLLM.

That method keeps one 16-bit copy of the weights. A member is made by adding noise to it in place and unmade
by subtracting the same noise; an update is N such additions, one after the other. Its noise is `torch`'s,
drawn in 16 bit per tensor with a generator that starts at the member's seed in each. It is written afresh
here from that description. Both generate the same prompts with full-length answers, in turn. Drift is what
rounding leaves behind: the distance from the weights that an exact update gives, in % of that update's size.

Usage: python -m bench.vllm_published [--smollm2 MODEL_DIR] [--quick] [--members M] [--rounds N]
"""

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.common import Figure, Row, all_reached, report
from bench.runs_support import NO_MODEL, add_model_option
from bench.vllm_support import (
    SERVED,
    SIGMA,
    Load,
    Took,
    Worker,
    best,
    generate_alone,
    taking_turns,
    timed,
    write_job,
)

if TYPE_CHECKING:
    import torch

POPULATION: Final = 30
ALPHA: Final = 5e-4
"""Population, sigma (above, 1e-3) and learning rate are those of the published code."""
SAMPLE: Final = 2**16
"""Elements per tensor of which drift is measured for a whole population."""


# The published method --------------------------------------------------------------------------------


def add_noise(weights: "Sequence[torch.Tensor]", seed: int, scale: float) -> None:
    """Add `scale` times a member's noise to 16-bit weights in place; a negative scale takes it off again."""
    import torch

    generator = torch.Generator()
    for weight in weights:
        generator.manual_seed(seed)
        weight.add_(torch.randn(weight.shape, dtype=weight.dtype, generator=generator) * scale)


def served_weights(worker: Any) -> "list[torch.Tensor]":
    """Every parameter of vLLM's model, as that method walks over them."""
    weights = [parameter.data for parameter in worker.model_runner.get_model().parameters()]
    if any(weight.element_size() != 2 for weight in weights):
        raise RuntimeError("the published method keeps its weights in 16 bit, and these are not")
    return weights


def coefficients_of(members: int) -> list[float]:
    """`alpha / N` times standardised rewards, as an update of that method has them: here evenly spread."""
    centred = [member - (members - 1) / 2 for member in range(members)]
    deviation = math.sqrt(sum(one * one for one in centred) / members) or 1.0
    return [ALPHA / members * one / deviation for one in centred]


# Drift -----------------------------------------------------------------------------------------------


@dataclass
class Drift:
    """Squared distances, summed over tensors in float64."""

    members: float = 0.0
    update: float = 0.0
    both: float = 0.0
    size: float = 0.0

    def percent(self, squared: float) -> float:
        """A distance in % of the size of the exact update."""
        return 100 * math.sqrt(squared / self.size)


def drift_of(weights: "Sequence[torch.Tensor]", dtype: "torch.dtype") -> Drift:
    """Drift of one iteration of the published method with a whole population, in a 16-bit format.

    Measured on the first elements of every tensor: after all members were made and unmade, after the update
    alone, and after both as they follow each other.
    """
    import torch

    total = Drift()
    coefficients = coefficients_of(POPULATION)
    for number, weight in enumerate(weights):
        before = weight.reshape(-1)[:SAMPLE].to(dtype)
        generator = torch.Generator()
        noise = []
        for seed in range(1, POPULATION + 1):
            generator.manual_seed(seed * 1_000 + number)
            noise.append(torch.randn(before.shape, dtype=dtype, generator=generator))
        restored, updated = before.clone(), before.clone()
        exact = torch.zeros(before.shape, dtype=torch.float64)
        for own, coefficient in zip(noise, coefficients, strict=True):
            restored.add_(own * SIGMA)
            restored.add_(own * -SIGMA)
            updated.add_(own * coefficient)
            exact += coefficient * own.double()
        both = restored.clone()
        for own, coefficient in zip(noise, coefficients, strict=True):
            both.add_(own * coefficient)
        start = before.double()
        total.members += float((restored.double() - start).square().sum())
        total.update += float((updated.double() - start - exact).square().sum())
        total.both += float((both.double() - start - exact).square().sum())
        total.size += float(exact.square().sum())
    return total


# In the measured process -----------------------------------------------------------------------------


class Beside:
    """One engine, and an iteration of `members` members by each method."""

    def __init__(self, job: Path, load: Load, members: int) -> None:
        self._worker = Worker(job, load)
        self._worker.warm_up()
        self._load = load
        self._seeds = range(1, members + 1)
        self._coefficients = coefficients_of(members)

    def ours(self) -> Took:
        """An iteration of the worker."""

        def turn() -> int:
            tokens = sum(self._worker.member(seed) for seed in self._seeds)
            self._worker.update(list(self._seeds), self._coefficients)
            return tokens

        return timed(turn)

    def published(self) -> Took:
        """An iteration of the published method; the worker's weights are written again afterwards."""
        llm = self._worker.engine._llm

        def add(seed: int, scale: float) -> None:
            llm.collective_rpc(lambda worker: add_noise(served_weights(worker), seed, scale))

        def turn() -> int:
            tokens = 0
            for seed in self._seeds:
                add(seed, SIGMA)
                tokens += generate_alone(llm, self._worker.tokens, self._load.new_tokens)
                add(seed, -SIGMA)
            for seed, coefficient in zip(self._seeds, self._coefficients, strict=True):
                add(seed, coefficient)
            return tokens

        took = timed(turn)
        self._worker.replica.write(0, 0.0)
        return took

    def drift(self) -> dict[str, dict[str, float]]:
        """% of the update, by format and by what was done, of the published method."""
        import torch

        (weights,) = self._worker.engine._llm.collective_rpc(served_weights)
        found = {}
        for name, dtype in (("BFloat16", torch.bfloat16), ("Float16", torch.float16)):
            one = drift_of(weights, dtype)
            found[name] = {
                "members made and unmade": one.percent(one.members),
                "update": one.percent(one.update),
                "iteration": one.percent(one.both),
            }
        return found

    def own_drift(self) -> bool:
        """Whether the worker's weights are, bit for bit, those that they have to be.

        After a whole population was written: master and served parent as before. After an update: the master
        of `MasterWeights`, which the `transformers` engine has, with the same update.
        """
        from dartes_worker.master import MasterWeights

        worker = self._worker
        assert worker.replica.version is not None, "weights are loaded before they are used"
        worker.replica.discard()
        worker.replica.load_base(b"\0" * 32)
        worker.replica.write(0, 0.0)
        before = worker.replica.digest().total, worker.replica.served_digests()[1].total
        for seed in range(1, POPULATION + 1):
            worker.replica.write(seed, SIGMA)
        worker.replica.write(0, 0.0)
        after = worker.replica.digest().total, worker.replica.served_digests()[1].total
        worker.update(list(range(1, POPULATION + 1)), coefficients_of(POPULATION))
        other = MasterWeights.load(worker.equipment.checkpoint, worker.equipment.served, b"\0" * 32)
        other.apply([self._row()])
        worker.replica.write(0, 0.0)
        expected, found = worker.replica.served_digests()
        updated = worker.replica.digest().total == other.digest().total
        return before == after and updated and expected.total == found.total

    def close(self) -> None:
        """Release the engine."""
        self._worker.equipment.close()

    def _row(self) -> Any:
        import numpy as np

        from dartes.ids import Iteration
        from dartes.journal import JournalRow

        seeds = np.arange(1, POPULATION + 1, dtype=np.uint64)
        return JournalRow(Iteration(0), 0, seeds, np.array(coefficients_of(POPULATION), np.float32))


def open_beside(job: Path, load: Load, members: int) -> dict[str, Callable[[], Any]]:
    """Both methods on one engine."""
    beside = Beside(job, load, members)
    return {
        "ours": beside.ours,
        "published": beside.published,
        "drift": beside.drift,
        "own drift": beside.own_drift,
        "close": beside.close,
    }


# In the measuring process ----------------------------------------------------------------------------


def figures_of(speed: float, drift: dict[str, dict[str, float]], exact: bool) -> list[Figure]:
    """What was asked."""
    theirs = " and ".join(f"{one['iteration']:.0f} % in {name}" for name, one in drift.items())
    return [
        Figure(
            "speed of an iteration beside the published method, on the same vLLM",
            ">= 1.0",
            f"{speed:.3f}",
            speed >= 1.0,
        ),
        Figure(
            "drift per iteration, of the update's size",
            "0 (the published method: 10 to 200 %)",
            f"{'0, by digest' if exact else 'digests differ'}; the published method: {theirs}",
            exact,
        ),
    ]


def main() -> int:
    """Measure, print and write; 1 if a figure is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.vllm_published", description=__doc__)
    add_model_option(parser)
    parser.add_argument("--members", type=int, default=2, help="members of a timed iteration (default 2)")
    parser.add_argument("--rounds", type=int, default=1, help="iterations of each (default 1)")
    parser.add_argument("--quick", action="store_true", help="one member, 32 prompts, 32 new tokens")
    options = parser.parse_args()
    if options.smollm2 is None:
        figure = Figure("speed beside the published method", ">= 1.0", NO_MODEL, None)
        report("vllm_published", [], {}, [figure])
        return 0
    load = Load(options.smollm2, 32, 32) if options.quick else Load(options.smollm2, 64, 64)
    members = 1 if options.quick else options.members
    rounds = options.rounds
    ours: list[Took] = []
    theirs: list[Took] = []
    with tempfile.TemporaryDirectory() as scratch:
        job = write_job(load, "VLLM", Path(scratch) / "job.yaml")
        with taking_turns((open_beside, job, load, members)) as (process,):
            for _ in range(rounds):
                ours.append(process.ask("ours"))
                theirs.append(process.ask("published"))
            drift = process.ask("drift")
            exact = process.ask("own drift")
    rows: list[Row] = [
        {
            "method": name,
            "what": f"an iteration of {members} member{'s' if members > 1 else ''}",
            "seconds": best(turns).seconds,
            "processor seconds": best(turns).processor,
            "tokens/s": best(turns).rate,
        }
        for name, turns in (("worker", ours), ("published", theirs))
    ]
    rows += [
        {"method": "published", "what": f"{what}, N = {POPULATION}, {name}", "drift, % of the update": value}
        for name, one in drift.items()
        for what, value in one.items()
    ]
    rows.append(
        {
            "method": "worker",
            "what": f"iteration, N = {POPULATION}, {SERVED}",
            "drift, % of the update": 0 if exact else None,
        }
    )
    speed = best(theirs).seconds / best(ours).seconds
    meta = {
        "model": "SmolLM2-135M-Instruct",
        "prompts": load.prompts,
        "new tokens": load.new_tokens,
        "rounds, the best counts": rounds,
        "served": SERVED,
        "sigma": SIGMA,
        "alpha": ALPHA,
        "threads": 1,
        "drift measured on": f"the first {SAMPLE} elements of every tensor",
    }
    figures = figures_of(speed, drift, exact)
    report("vllm_published", rows, meta, figures)
    return 0 if all_reached(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
