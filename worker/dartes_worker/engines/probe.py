"""Find out where the loader of `transformers` puts checkpoint elements, by loading numbers that name them.

Every element of the tensors in question gets a code. Models are loaded whose float32 values are digits of the
codes (below 2**24, so exact), and the digits are read back from where they landed. A last load
with a scrambled digit proves the map: a value that was scaled, shifted or merged would not fit it.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from dartes.checkpoint import TensorInfo
from dartes.errors import ConfigurationError

EXACT: Final = (1 << 24) - 1
"""Largest integer up to which float32 holds every one."""
DIGIT_BITS: Final = 24
"""Bits of the low digit of a code; the high digit is the rest."""
_PIECE: Final = 2**20
_SCATTERED: Final = 16
"""Fewest elements per run, on average, that are worth a segment each."""
RUNS_LET_THROUGH: Final = 4096
"""So many runs are never too many, as in small models."""

Codes: TypeAlias = NDArray[np.int64]
FlatTensors: TypeAlias = Callable[[Any], Mapping[str, torch.Tensor]]


@dataclass(frozen=True, slots=True)
class Run:
    """Elements `start` to `start + count` of a checkpoint tensor lie at `offset` of a served one."""

    source: str
    start: int
    target: str
    offset: int
    count: int


@dataclass(frozen=True, slots=True)
class _CodeRun:
    """Consecutive codes from `code` on, at `offset` of a served tensor; first modulo 2**24, then in full."""

    target: str
    offset: int
    count: int
    code: int


def locate(
    model: Any, sources: Sequence[TensorInfo], targets: Set[str], flat_tensors: FlatTensors
) -> list[Run]:
    """Return where each element of `sources` lies in the served tensors `targets` of models like `model`.

    Needs, one load after the other, float32 memory for the whole model and for `sources`. The runs
    may leave gaps or overlaps in `sources`, which the caller checks.

    Raises ConfigurationError where served values are not plain copies of checkpoint elements, or where the
    elements are scattered one by one (a transposed copy).
    """
    # Codes start at 1: memory that nothing was loaded into is often 0.
    bases = np.cumsum([1, *(info.count for info in sources)], dtype=np.int64)
    digits: list[Callable[[Codes], Codes]] = [_low_digit, _high_digit, scrambled_digit]
    if int(bases[-1]) < 1 << DIGIT_BITS:
        digits.remove(_high_digit)
    runs: list[_CodeRun] = []
    for digit in digits:
        # Only one of these models is in memory at a time.
        served: Mapping[str, torch.Tensor] = {}
        probe, absent = _load_digits(model, sources, bases, digit)
        served = {name: flat for name, flat in flat_tensors(probe).items() if name in targets - absent}
        del probe
        if digit is _low_digit:
            runs = [run for name in sorted(served) for run in _runs(name, served[name])]
            if len(runs) > max(RUNS_LET_THROUGH, int(bases[-1]) // _SCATTERED):
                raise ConfigurationError(
                    f"{type(model).__name__}: the loader transposes or scales tensors, first "
                    f"{runs[0].target}, which this engine does not train; use another engine or model"
                )
        elif digit is _high_digit:
            runs = [part for run in runs for part in _with_high_digit(run, served[run.target])]
        else:
            _verify(runs, served, int(bases[-1]))
    return [part for run in runs for part in _by_source(run, sources, bases)]


def scrambled_digit(codes: Codes) -> Codes:
    """Return a digit that no shifting, scaling or mixing of codes maps to that of another code."""
    mixed = codes.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return (mixed >> np.uint64(40)).astype(np.int64)


def _low_digit(codes: Codes) -> Codes:
    return codes & ((1 << DIGIT_BITS) - 1)


def _high_digit(codes: Codes) -> Codes:
    return codes >> DIGIT_BITS


def _load_digits(
    model: Any, sources: Sequence[TensorInfo], bases: Codes, digit: Callable[[Codes], Codes]
) -> tuple[Any, set[str]]:
    """Return a model that the loader filled with one digit of every code, and the names it lacked."""
    from transformers.initialization import no_init_weights

    state: dict[str, torch.Tensor] = {}
    for info, base in zip(sources, bases.tolist(), strict=False):
        values = np.empty(info.count, dtype=np.float32)
        for start in range(0, info.count, _PIECE):
            stop = min(start + _PIECE, info.count)
            values[start:stop] = digit(np.arange(base + start, base + stop, dtype=np.int64))
        state[info.name] = torch.from_numpy(values).view(info.shape)
    try:
        # The other tensors are absent and stay uninitialised: nobody looks at them.
        with no_init_weights():
            probe, report = type(model).from_pretrained(
                None, config=model.config, state_dict=state, dtype=torch.float32, output_loading_info=True
            )
    except (RuntimeError, ValueError, KeyError) as error:
        raise ConfigurationError(
            f"{type(model).__name__}: can't find where {', '.join(sorted(state)[:3])} are served ({error}); "
            "use another engine or model"
        ) from error
    return probe, set(report["missing_keys"])


def _integers(target: str, flat: torch.Tensor) -> Codes:
    """Return the digits in a piece of a served tensor; ConfigurationError if it holds anything else."""
    values = flat.cpu().float().numpy()
    whole = (values >= 0) & (values <= EXACT) & (values == np.floor(values))
    if not whole.all():
        raise _not_a_copy(target)
    return values.astype(np.int64)


def _runs(target: str, flat: torch.Tensor) -> list[_CodeRun]:
    """Cut a served tensor where its low digits do not go up by one."""
    runs: list[_CodeRun] = []
    for at in range(0, flat.numel(), _PIECE):
        piece = _integers(target, flat[at : at + _PIECE])
        cuts = np.flatnonzero(np.diff(piece) != 1) + 1
        starts = [0, *cuts.tolist()]
        for start, stop in zip(starts, [*starts[1:], piece.size], strict=True):
            code = int(piece[start])
            last = runs[-1] if runs else None
            if last is not None and start == 0 and code == last.code + last.count:
                runs[-1] = replace(last, count=last.count + stop)
            else:
                runs.append(_CodeRun(target, at + start, stop - start, code))
    return runs


def _with_high_digit(run: _CodeRun, flat: torch.Tensor) -> list[_CodeRun]:
    """Cut a run where its high digit changes, and complete its codes."""
    high = np.concatenate(
        [
            _integers(run.target, flat[at : min(at + _PIECE, run.offset + run.count)])
            for at in range(run.offset, run.offset + run.count, _PIECE)
        ]
    )
    starts = [0, *(np.flatnonzero(np.diff(high)) + 1).tolist()]
    return [
        _CodeRun(
            run.target, run.offset + start, stop - start, run.code + start + (int(high[start]) << DIGIT_BITS)
        )
        for start, stop in zip(starts, [*starts[1:], run.count], strict=True)
    ]


def _verify(runs: Sequence[_CodeRun], served: Mapping[str, torch.Tensor], end: int) -> None:
    for run in runs:
        if run.code < 1 or run.code + run.count > end:
            raise _not_a_copy(run.target)
        for start in range(0, run.count, _PIECE):
            count = min(_PIECE, run.count - start)
            codes = np.arange(run.code + start, run.code + start + count, dtype=np.int64)
            at = run.offset + start
            landed = _integers(run.target, served[run.target][at : at + count])
            if not np.array_equal(landed, scrambled_digit(codes)):
                raise _not_a_copy(run.target)


def _by_source(run: _CodeRun, sources: Sequence[TensorInfo], bases: Codes) -> list[Run]:
    """Cut a run of codes at the borders of checkpoint tensors."""
    parts: list[Run] = []
    done = 0
    while done < run.count:
        code = run.code + done
        index = int(np.searchsorted(bases, code, side="right")) - 1
        count = min(run.count - done, int(bases[index + 1]) - code)
        start = code - int(bases[index])
        parts.append(Run(sources[index].name, start, run.target, run.offset + done, count))
        done += count
    return parts


def _not_a_copy(target: str) -> ConfigurationError:
    return ConfigurationError(
        f"{target}: the loader does not fill it with plain copies of checkpoint values (it scales, merges or "
        "adds to them), so a member can't be written there; use another engine or model"
    )
