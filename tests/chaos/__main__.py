"""A seeded random schedule of faults over three jobs, and what must hold all the while: see docs/chaos.md.

Uses the cluster that is up, or brings one up and takes it down. In a cluster that was up before, nodes and
API server are let alone unless `--everything` is given. Exit status 1 where anything was wrong.
"""

import argparse
import json
import logging
import random
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.common import machine
from testcluster.commands import ClusterError

from .acts import PROPERTIES, Act, Scope
from .injections import Injector
from .report import Result, document, summary, table
from .run import Run
from .schedule import make_schedule
from .specs import LAYOUT
from .world import own_cluster, truths, world

STEPS = 300
FOLDER = Path(__file__).resolve().parents[2] / "build" / "chaos"
MANY_STEPS = 100_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, tell, write."""
    options = parser().parse_args(arguments)
    # Everything that was made is to be taken away, however a run is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # The proxy's, about connections that it cut itself.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    folder = options.out / f"seed-{seed}-{time.strftime('%Y%m%d-%H%M%S')}"
    folder.mkdir(parents=True)
    tell("what the three jobs come out as when nothing happens ...")
    known = truths(options.truths)
    with own_cluster() as (cluster, started):
        acts = chosen_acts(everything=options.everything or started, only=options.only)
        steps = options.steps or (MANY_STEPS if options.minutes else STEPS)
        schedule = make_schedule(seed, steps, LAYOUT, acts)
        result = Result(seed, steps, tuple(act for act in Act if act in acts))
        tell(f"seed {seed}, {steps} steps; copies of all logs and evidence in {folder}")
        with world(cluster, seed, folder / "logs", known) as made:
            run = Run(
                made,
                Injector(made),
                schedule,
                result,
                say=tell,
                evidence=folder / "evidence",
                most_seconds=options.minutes * 60 if options.minutes else None,
            )
            try:
                run.go()
            except KeyboardInterrupt:
                result.ended_early = "interrupted"
            except Exception as error:
                result.ended_early = f"{type(error).__name__}: {error}"
                raise
            finally:
                run.heal()
                run.count()
                text = json.dumps(document(result, machine()), indent=1)
                for path in (folder / "result.json", *([options.json] if options.json else [])):
                    path.write_text(text + "\n", encoding="utf-8")
                (folder / "table.md").write_text(f"{table(result)}\n\n{summary(result)}\n", encoding="utf-8")
                tell(f"\n{table(result)}\n\n{summary(result)}")
                for words in result.violations:
                    tell(f"VIOLATION at {words}")
    return 0 if result.passed else 1


def tell(words: str) -> None:
    """A line for whoever looks on."""
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    top.add_argument("--steps", type=int, help=f"so many acts (default {STEPS}, or what --minutes allows)")
    top.add_argument("--minutes", type=float, help="begin no step after so many minutes")
    top.add_argument("--seed", type=int, help="of the schedule (default: a new one, which is printed)")
    top.add_argument(
        "--everything", action="store_true", help="hurt nodes and API server of a cluster that is up, too"
    )
    top.add_argument(
        "--only", action="append", metavar="NAME", help="acts whose names contain this; may be repeated"
    )
    top.add_argument(
        "--out", type=Path, default=FOLDER, help="folder for logs and evidence (default build/chaos)"
    )
    top.add_argument(
        "--truths", type=Path, help="keep what undisturbed jobs come out as here, and use it where it is kept"
    )
    top.add_argument("--json", type=Path, help="write the result here as well")
    return top


def chosen_acts(*, everything: bool, only: Sequence[str] | None = None) -> frozenset[Act]:
    """The acts that may come up."""
    allowed = {act for act in Act if everything or PROPERTIES[act].scope is Scope.NAMESPACES}
    if only:
        allowed = {
            act for act in allowed if any(words.upper() in (act.name, *act.name.split("_")) for words in only)
        }
    if not allowed:
        raise SystemExit(f"--only {', '.join(only or ())}: there are {', '.join(act.name for act in Act)}")
    return frozenset(allowed)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ClusterError as error:
        sys.exit(f"chaos: {error}")
