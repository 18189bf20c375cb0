"""Check that all ranks together serve every trained element, and decide which rank counts each.

Pure arithmetic on intervals of flat indices: no array has the size of a tensor. Knows no engine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dartes.errors import ConfigurationError
from dartes_worker.engines.probe import Run
from dartes_worker.engines.vllm.rectangles import runs_of, stretches_of
from dartes_worker.weights.stretch import Stretch

_Numbers: TypeAlias = NDArray[np.int64]
_SHOWN = 5


class _Covered:
    """A set of flat indices: sorted intervals that neither touch nor overlap."""

    def __init__(self) -> None:
        self.starts: _Numbers = np.zeros(0, np.int64)
        self.stops: _Numbers = np.zeros(0, np.int64)

    def below(self, bounds: _Numbers) -> _Numbers:
        """How many covered indices are smaller than each of `bounds`."""
        before = np.concatenate([[0], np.cumsum(self.stops - self.starts)])
        index = np.searchsorted(self.starts, bounds, side="left")
        last = np.maximum(index - 1, 0)
        inside = np.minimum(bounds, self.stops[last]) - self.starts[last] if self.starts.size else 0
        return np.where(index > 0, before[last] + inside, 0)

    def add(self, starts: _Numbers, stops: _Numbers) -> None:
        """Add intervals, sorted by start."""
        starts, stops = np.concatenate([self.starts, starts]), np.concatenate([self.stops, stops])
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], np.maximum.accumulate(stops[order])
        first = np.concatenate([[True], starts[1:] > ends[:-1]])
        self.starts = starts[first]
        self.stops = ends[np.concatenate([first[1:], [True]])]

    def cut(self, run: Run) -> list[tuple[Run, bool]]:
        """Cut a run at the borders of the set; with each part, whether it lies within."""
        stop = run.start + run.count
        borders = np.concatenate([self.starts, self.stops])
        borders = np.unique(borders[(borders > run.start) & (borders < stop)])
        edges = np.concatenate([[run.start], borders, [stop]])
        within = np.diff(self.below(edges)) > 0
        return [
            (Run(run.source, a, run.target, run.offset + a - run.start, b - a), bool(inside))
            for a, b, inside in zip(edges[:-1].tolist(), edges[1:].tolist(), within, strict=True)
        ]


def owned(
    per_rank: Sequence[Sequence[Stretch]], expected: Mapping[str, int], where: str
) -> list[list[Stretch]]:
    """Return the ranks' stretches with each element of `expected` (name -> count) owned exactly once.

    The first rank that has an element owns it. A stretch of which only a part is owned is cut.

    Raises ConfigurationError naming tensors and element ranges that no rank serves, and unknown tensors.
    """
    covered = {name: _Covered() for name in expected}
    problems: list[str] = []
    found: list[list[Stretch]] = []
    for stretches in per_rank:
        marked: list[Stretch] = []
        for stretch in stretches:
            if stretch.name not in covered:
                problems.append(f"{stretch.name}: not a trained tensor")
                continue
            marked.extend(_marked(stretch, covered[stretch.name]))
        found.append(marked)
    for name, count in expected.items():
        problems.extend(_gaps(name, count, covered[name]))
    if problems:
        more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise ConfigurationError(
            f"{where}: the engine does not serve every trained tensor: {'; '.join(problems[:_SHOWN])}{more}. "
            "Remove tensors that the architecture ignores from the files, or use another engine or model"
        )
    return found


def _marked(stretch: Stretch, covered: _Covered) -> list[Stretch]:
    """Return the stretch, or its parts, with `owned` set, and add it to what is covered."""
    starts = stretch.start + stretch.source_step * np.arange(stretch.rows, dtype=np.int64)
    stops = starts + stretch.length
    again = int((covered.below(stops) - covered.below(starts)).sum())
    if again == 0:
        parts = [_with(stretch, own=True)]
    elif again == stretch.count:
        parts = [_with(stretch, own=False)]
    else:
        cut = [part for row in runs_of(stretch) for part in covered.cut(row)]
        parts = [
            *stretches_of([run for run, inside in cut if not inside]),
            *stretches_of([run for run, inside in cut if inside], owned=False),
        ]
    covered.add(starts, stops)
    return parts


def _with(stretch: Stretch, *, own: bool) -> Stretch:
    return stretch if stretch.owned is own else replace(stretch, owned=own)


def _gaps(name: str, count: int, covered: _Covered) -> list[str]:
    if not covered.starts.size:
        return [f"{name}: served nowhere"] if count else []
    starts = np.concatenate([covered.starts, [count]]).tolist()
    stops = np.concatenate([[0], covered.stops]).tolist()
    gaps = [f"{a}..{b}" for a, b in zip(stops, starts, strict=True) if a < b]
    problems = []
    if gaps:
        more = f" and {len(gaps) - 3} more ranges" if len(gaps) > 3 else ""
        problems.append(f"{name}: elements {', '.join(gaps[:3])}{more} of {count} are served nowhere")
    if stops[-1] > count:
        problems.append(f"{name}: elements {count}..{stops[-1]} do not exist")
    return problems
