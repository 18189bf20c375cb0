"""Tokens per second of a worker with the vLLM engine: beside vLLM alone and beside the `transformers` engine.

A turn of the worker is what one member costs: write it, answer all prompts in one continuous batch, have the
answers graded, apply and attest one update. vLLM alone answers the same prompts by its own `generate`, in the
same process (plain weights) and in another one (weights packed as vLLM does on a CPU). All take turns. The
`transformers` engine is measured with answers of full length and with answers that end where the model ends
them: there the two differ, since finished rows and padding cost it what answers cost.

Usage: python -m bench.vllm_throughput [--smollm2 MODEL_DIR] [--quick] [--rounds N]
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

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
    vllm_alone,
    write_job,
)

BESIDE_ALONE: Final = 0.95
BESIDE_TRANSFORMERS: Final = 1.5
COEFFICIENT: Final = 1e-5


def open_worker(job: Path, load: Load) -> dict[str, Callable[[], Any]]:
    """A worker with its engine; "worker" is a turn, "alone" one of vLLM alone on the same weights."""
    worker = Worker(job, load)
    worker.warm_up()
    seeds = iter(range(1, 1_000_000))

    def turn() -> int:
        seed = next(seeds)
        tokens = worker.member(seed)
        worker.update([seed], [COEFFICIENT])
        return tokens

    def ended(end_ids: tuple[int, ...]) -> Callable[[], Took]:
        def answer() -> Took:
            worker.engine._encoder.end_ids = end_ids
            return timed(turn)

        return answer

    ends = end_ids_of(worker)
    return {
        "worker": ended(()),
        "worker, ended": ended(ends),
        "alone": lambda: timed(lambda: generate_alone(worker.engine._llm, worker.tokens, load.new_tokens)),
        "close": worker.equipment.close,
    }


def end_ids_of(worker: Worker) -> tuple[int, ...]:
    """The tokens that end an answer of this model."""
    from dartes_worker.engines.loading import load_tokenizer
    from dartes_worker.engines.prompts import PromptEncoder, end_tokens

    folder = worker.equipment.checkpoint.folder
    return PromptEncoder(load_tokenizer(folder), end_tokens(folder), folder).end_ids


def prompts_of(job: Path, load: Load) -> list[list[int]]:
    """Token ids of the prompts that a worker answers, without one."""
    from dartes.data import load_dataset
    from dartes.spec import load_job
    from dartes.tasks.registry import task_named
    from dartes_worker.engines.loading import load_tokenizer
    from dartes_worker.engines.prompts import PromptEncoder, end_tokens

    loaded = load_job(job)
    spec = loaded.job.spec
    task = task_named(spec.task.kind).from_spec(spec.task)
    dataset = load_dataset(spec.dataset, loaded.base_dir)
    encoder = PromptEncoder(load_tokenizer(load.model), end_tokens(load.model), load.model)
    return encoder.encode([task.prompt(row) for row in dataset.rows[: load.prompts]])


def open_packed(job: Path, load: Load) -> dict[str, Callable[[], Any]]:
    """vLLM alone with packed weights, on the prompts of the job."""
    tokens = prompts_of(job, load)
    llm = vllm_alone(load.model, plain=False)
    generate_alone(llm, tokens[:2], 2)
    return {"alone": lambda: timed(lambda: generate_alone(llm, tokens, load.new_tokens))}


def measure(load: Load, rounds: int) -> dict[str, list[Took]]:
    """All in turn; seconds and tokens by what was measured."""
    found: dict[str, list[Took]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        ours = write_job(load, "VLLM", Path(scratch) / "vllm.yaml")
        theirs = write_job(load, "Transformers", Path(scratch) / "transformers.yaml")
        processes = (open_worker, ours, load), (open_worker, theirs, load), (open_packed, ours, load)
        with taking_turns(*processes) as (vllm, other, packed):
            for _ in range(rounds):
                for name, process, action in (
                    ("vLLM worker", vllm, "worker"),
                    ("vLLM alone", vllm, "alone"),
                    ("vLLM alone, packed", packed, "alone"),
                    ("transformers worker", other, "worker"),
                    ("vLLM worker, ended", vllm, "worker, ended"),
                    ("transformers worker, ended", other, "worker, ended"),
                ):
                    found.setdefault(name, []).append(process.ask(action))
    return found


NAMES: Final = {
    "vLLM worker": "worker, vLLM engine, plain weights",
    "vLLM alone": "vLLM alone, plain weights",
    "vLLM alone, packed": "vLLM alone, packed weights",
    "transformers worker": "worker, transformers engine",
    "vLLM worker, ended": "worker, vLLM engine",
    "transformers worker, ended": "worker, transformers engine",
}


def rows_of(found: dict[str, list[Took]]) -> list[Row]:
    """The best turn of each."""
    rows: list[Row] = []
    for name, turns in found.items():
        one = best(turns)
        rows.append(
            {
                "what": NAMES[name],
                "answers": "end by themselves" if name.endswith("ended") else "full length",
                "tokens": one.tokens,
                "seconds": one.seconds,
                "tokens/s": one.rate,
                "tokens per processor second": one.tokens / one.processor,
            }
        )
    return rows


def figures_of(found: dict[str, list[Took]]) -> list[Figure]:
    """What was asked; ratios of the best turns."""
    rate = {name: best(turns).rate for name, turns in found.items()}
    alone = rate["vLLM worker"] / rate["vLLM alone"]
    full = rate["vLLM worker"] / rate["transformers worker"]
    ended = rate["vLLM worker, ended"] / rate["transformers worker, ended"]
    packed = rate["vLLM alone, packed"] / rate["vLLM alone"]
    asked = f">= {BESIDE_TRANSFORMERS}"
    return [
        Figure(
            "tokens/s of a worker's turn beside vLLM alone, plain weights",
            f">= {BESIDE_ALONE}",
            f"{alone:.3f}",
            alone >= BESIDE_ALONE,
        ),
        Figure("packed weights beside plain ones, vLLM alone", "stated", f"{packed:.2f} times", None),
        Figure(
            "beside the transformers engine, answers of full length",
            asked,
            f"{full:.2f}",
            full >= BESIDE_TRANSFORMERS,
        ),
        Figure(
            "beside the transformers engine, answers that end by themselves",
            asked,
            f"{ended:.2f}",
            ended >= BESIDE_TRANSFORMERS,
        ),
    ]


def main() -> int:
    """Measure, print and write; 1 if a figure is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.vllm_throughput", description=__doc__)
    add_model_option(parser)
    parser.add_argument("--rounds", type=int, default=1, help="turns of each (default 1)")
    parser.add_argument("--quick", action="store_true", help="32 prompts, 32 new tokens")
    options = parser.parse_args()
    if options.smollm2 is None:
        report("vllm_throughput", [], {}, [Figure("tokens/s of a worker's turn", ">= 0.95", NO_MODEL, None)])
        return 0
    load = Load(options.smollm2, 32, 32) if options.quick else Load(options.smollm2, 64, 64)
    rounds = options.rounds
    found = measure(load, rounds)
    meta = {
        "model": "SmolLM2-135M-Instruct",
        "prompts": load.prompts,
        "new tokens": load.new_tokens,
        "rounds, the best counts": rounds,
        "served": SERVED,
        "sigma": SIGMA,
        "threads": 1,
    }
    figures = figures_of(found)
    report("vllm_throughput", rows_of(found), meta, figures)
    return 0 if all_reached(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
