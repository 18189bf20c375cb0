"""Put runs of elements together to rectangles, so that a slice of a matrix is one stretch.

Pure: takes runs and returns stretches. Knows no tensors.
"""

from collections.abc import Sequence

from dartes_worker.engines.probe import Run
from dartes_worker.weights.stretch import Stretch


def stretches_of(runs: Sequence[Run], *, owned: bool = True) -> tuple[Stretch, ...]:
    """Return stretches that hold exactly the elements of `runs`, sorted by (target, offset).

    Runs that continue one another become one; those of equal length at equal distances become the rows of
    one stretch. Rows never overlap on either side. The runs may not overlap in the targets.
    """
    whole: list[Run] = []
    for run in sorted(runs, key=lambda run: (run.target, run.offset)):
        last = whole[-1] if whole else None
        if last is not None and _continues(last, run):
            whole[-1] = Run(last.source, last.start, last.target, last.offset, last.count + run.count)
        else:
            whole.append(run)
    found: list[Stretch] = []
    first = 0
    while first < len(whole):
        rows = _rows(whole, first)
        run = whole[first]
        following = whole[first + 1] if rows > 1 else run
        found.append(
            Stretch(
                run.source,
                run.target,
                run.start,
                run.offset,
                run.count,
                rows,
                following.start - run.start,
                following.offset - run.offset,
                owned,
            )
        )
        first += rows
    return tuple(found)


def runs_of(stretch: Stretch) -> list[Run]:
    """Return the rows of a stretch."""
    return [
        Run(
            stretch.name,
            stretch.start + row * stretch.source_step,
            stretch.target,
            stretch.offset + row * stretch.target_step,
            stretch.length,
        )
        for row in range(stretch.rows)
    ]


def _continues(last: Run, run: Run) -> bool:
    return (
        (last.source, last.target) == (run.source, run.target)
        and last.start + last.count == run.start
        and last.offset + last.count == run.offset
    )


def _rows(runs: Sequence[Run], first: int) -> int:
    """How many runs from `first` on are rows of one rectangle."""
    if first + 1 == len(runs):
        return 1
    run, following = runs[first], runs[first + 1]
    steps = (following.start - run.start, following.offset - run.offset)
    if min(steps) < run.count:
        return 1
    rows = 1
    while first + rows < len(runs):
        last, following = runs[first + rows - 1], runs[first + rows]
        if (
            (following.source, following.target, following.count) != (run.source, run.target, run.count)
            or (following.start - last.start, following.offset - last.offset) != steps
        ):  # fmt: skip
            break
        rows += 1
    return rows
