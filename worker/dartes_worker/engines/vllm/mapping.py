"""Find out where vLLM's loader puts checkpoint elements, by loading digits of numbers that name them.

Works on one rank's live model, whatever its family, fusions and slices: nothing is assumed, all is read back
from where it landed, and a last load of scrambled digits proves it. Knows no other rank.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from dartes.checkpoint import TensorInfo
from dartes.errors import ConfigurationError
from dartes_worker.engines.probe import RUNS_LET_THROUGH, Run
from dartes_worker.engines.vllm.digits import BITS, Digit, DigitValues, digits_for
from dartes_worker.engines.vllm.rectangles import stretches_of
from dartes_worker.weights.stretch import Stretch

_PIECE: Final = 2**20
"""Elements looked at together: at most 8 MiB per temporary, of which there are a few."""
_SCATTERED: Final = 16
"""Fewest elements per run, on average, that are worth a stretch."""
_NOWHERE: Final = -1
_LEFT_ALONE: Final = ("e_score_correction_bias",)
"""Parameters of vLLM that are buffers in the files, see `dartes.checkpoint.classify`."""

_Numbers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Runs:
    """Runs of a served tensor: run r begins at starts[r] and its element p has the code p + shifts[r].

    The shift is known modulo what digits have been read; it is -1 where nothing was loaded.
    """

    starts: _Numbers
    shifts: _Numbers


def served_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the float tensors that a loader can fill, as flat views by name; tied ones once.

    Parameters and persistent buffers of `model`, in place; a tied one is under its first name.

    Raises ConfigurationError for one that isn't contiguous, or lies across another.
    """
    seen: set[int] = set()
    found: dict[str, torch.Tensor] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if not tensor.is_floating_point() or not tensor.numel() or tensor.data_ptr() in seen:
            continue
        if not tensor.is_contiguous():
            raise ConfigurationError(
                f"{name}: vLLM keeps it with strides {tuple(tensor.stride())} for the shape "
                f"{tuple(tensor.shape)}, and only contiguous tensors can be written; "
                "use another engine or model"
            )
        seen.add(tensor.data_ptr())
        found[name] = tensor.detach().view(-1)
    end, last = 0, ""
    for start, name in sorted((flat.data_ptr(), name) for name, flat in found.items()):
        if start < end:
            raise ConfigurationError(f"{name}: shares memory with {last}; use another engine or model")
        end, last = start + found[name].numel() * found[name].element_size(), name
    return found


def locate(model: torch.nn.Module, trainable: Sequence[TensorInfo]) -> tuple[Stretch, ...]:
    """Return where this rank's live vLLM model serves the elements of `trainable`.

    Loads once per digit (four below 2**32 elements) and once more for the proof. Afterwards the elements
    that the stretches name are undefined and have to be written; every other value is what it was. Needs
    memory for the largest tensor of the files in the served format, and about 50 MiB.

    Raises
    ------
    ConfigurationError
        Names the tensor: weights are quantised, or not plain copies of the files'; a parameter gets nothing
        from a trained tensor, or something only in part (padding with zeros apart); the loader refuses.
    """
    _refuse_unreadable(model)
    parameters = dict(model.named_parameters())
    left_alone = _only_padding(model)
    served = {
        name: flat
        for name, flat in served_tensors(model).items()
        if not name.endswith(_LEFT_ALONE) and name not in left_alone
    }
    first = next(iter(served.values()))
    bases = np.cumsum([1, *(info.count for info in trainable)], dtype=np.int64)
    # Small ones: any value may be in a buffer, also those that are loaded first.
    buffers = {name: flat.clone() for name, flat in served.items() if name not in parameters}
    runs: dict[str, _Runs] = {}
    for digit in digits_for(int(bases[-1])):
        values = DigitValues(digit, first.dtype, first.device)
        _load(model, _tensors(trainable, bases, values))
        if digit.number == 0:
            for name, flat in served.items():
                if name in buffers and torch.equal(flat, buffers[name]):
                    continue
                runs[name] = _read(name, flat, digit, values, None)
                _check_reached(name, flat, runs[name])
        elif digit.number is not None:
            runs = {name: _read(name, served[name], digit, values, own) for name, own in runs.items()}
        else:
            for name, own in runs.items():
                _verify(name, served[name], own, values, int(bases[-1]))
    return stretches_of(
        [run for name, own in runs.items() for run in _by_source(name, own, served[name], trainable, bases)]
    )


def _tensors(
    trainable: Sequence[TensorInfo], bases: _Numbers, values: DigitValues
) -> Iterator[tuple[str, torch.Tensor]]:
    for info, base in zip(trainable, bases.tolist(), strict=False):
        yield info.name, values.of(base, info.count).view(info.shape)


def _load(model: Any, tensors: Iterator[tuple[str, torch.Tensor]]) -> None:
    try:
        with torch.no_grad():
            model.load_weights(tensors)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError, KeyError, AttributeError, AssertionError, IndexError) as error:
        raise ConfigurationError(
            f"{type(model).__name__}: vLLM can't load the trained tensors a second time "
            f"({type(error).__name__}: {error}); use another engine or model"
        ) from error


def _read(name: str, flat: torch.Tensor, digit: Digit, values: DigitValues, known: _Runs | None) -> _Runs:
    """Cut the runs known so far where the digit read back does not continue, and add it to the shifts."""
    starts: list[_Numbers] = []
    shifts: list[_Numbers] = []
    total, last, limit = 0, None, max(RUNS_LET_THROUGH, flat.numel() // _SCATTERED)
    for at in range(0, flat.numel(), _PIECE):
        piece = flat[at : at + _PIECE]
        before = _shifts_at(known, at, piece.numel())
        cut, own = _quick(piece, at, digit, values, before) or _slow(name, piece, at, digit, before)
        if last is not None and cut.size and own[0] == last:
            cut, own = cut[1:], own[1:]
        if own.size:
            last = int(own[-1])
        starts.append(cut)
        shifts.append(own)
        total += cut.size
        if total > limit:
            raise ConfigurationError(
                f"{name}: vLLM's loader transposes or scatters the elements of the files, which this engine "
                "does not train; use another engine or model"
            )
    return _Runs(np.concatenate(starts), np.concatenate(shifts))


def _shifts_at(known: _Runs | None, at: int, count: int) -> tuple[_Numbers, _Numbers]:
    """Return places within a piece where runs begin, and their shifts; the first is place 0."""
    if known is None:
        return np.zeros(1, np.int64), np.zeros(1, np.int64)
    low = int(np.searchsorted(known.starts, at, side="right")) - 1
    high = int(np.searchsorted(known.starts, at + count, side="left"))
    return np.maximum(known.starts[low:high] - at, 0), known.shifts[low:high]


def _quick(
    piece: torch.Tensor,
    at: int,
    digit: Digit,
    values: DigitValues,
    before: tuple[_Numbers, _Numbers],
) -> tuple[_Numbers, _Numbers] | None:
    """Read a piece that is one run with a comparison; None where it is not."""
    places, shifts = before
    if places.size != 1 or shifts[0] == _NOWHERE:
        return None
    assert digit.number is not None
    value = float(piece[0])
    number = -1 - value if digit.negative else value
    if not (number.is_integer() and 0 <= number <= 255):
        return None
    width = BITS * digit.number
    code = ((at + int(shifts[0])) & ((1 << width) - 1)) | (int(number) << width)
    if not torch.equal(values.of(code, piece.numel()).to(piece.dtype), piece):
        return None
    shift = (code - at) & ((1 << (width + BITS)) - 1)
    return np.array([at], np.int64), np.array([shift], np.int64)


def _slow(
    name: str, piece: torch.Tensor, at: int, digit: Digit, before: tuple[_Numbers, _Numbers]
) -> tuple[_Numbers, _Numbers]:
    """Read a piece element by element."""
    assert digit.number is not None
    width = BITS * digit.number
    read = piece.float()
    number = (-1 - read if digit.negative else read).nan_to_num(-1.0)
    loaded = (number >= 0) & (number <= 255) & (number == number.floor())
    shift = _per_element(*before, piece)
    if not digit.negative:
        expected = shift != _NOWHERE
        if not bool(torch.where(expected, loaded, read == 0).all()):
            raise _not_a_copy(name)
        loaded = expected
    position = torch.arange(at, at + piece.numel(), device=piece.device)
    code = ((position + shift) & ((1 << width) - 1)) | (number.to(torch.int64) << width)
    shift = torch.where(loaded, (code - position) & ((1 << (width + BITS)) - 1), _NOWHERE)
    cuts = torch.nonzero(torch.diff(shift, prepend=shift[:1] - 1)).view(-1)
    return (cuts + at).cpu().numpy(), shift[cuts].cpu().numpy()


def _only_padding(model: torch.nn.Module) -> set[str]:
    """Return the vocabulary slices of this rank in which no token is: small vocabularies end before them."""
    return {
        f"{name}.weight"
        for name, module in model.named_modules()
        if getattr(getattr(module, "shard_indices", None), "num_org_elements", 1) == 0
    }


def _check_reached(name: str, flat: torch.Tensor, runs: _Runs) -> None:
    """Raise ConfigurationError where nothing was loaded, or in part into what isn't zero, as padding is."""
    if bool((runs.shifts == _NOWHERE).all()):
        raise ConfigurationError(
            f"{name}: no trained tensor of the files is copied into this parameter of vLLM's model, so it "
            "can't be trained; use another engine or model"
        )
    stops = [*runs.starts[1:].tolist(), flat.numel()]
    for start, stop, shift in zip(runs.starts.tolist(), stops, runs.shifts.tolist(), strict=True):
        if shift == _NOWHERE and bool(flat[start:stop].any()):
            raise _not_a_copy(name)


def _bounds(runs: _Runs, flat: torch.Tensor) -> Iterator[tuple[int, int, int]]:
    """Yield (first element, one after the last, code of the first) of the runs with codes."""
    stops = [*runs.starts[1:].tolist(), flat.numel()]
    for start, stop, shift in zip(runs.starts.tolist(), stops, runs.shifts.tolist(), strict=True):
        if shift != _NOWHERE:
            yield start, stop, start + shift


def _verify(name: str, flat: torch.Tensor, runs: _Runs, values: DigitValues, end: int) -> None:
    """Compare what was loaded last with the scrambled digits of the codes found."""
    if any(code < 1 or code + stop - start > end for start, stop, code in _bounds(runs, flat)):
        raise _not_a_copy(name)
    for at in range(0, flat.numel(), _PIECE):
        piece = flat[at : at + _PIECE]
        places, shifts = _shifts_at(runs, at, piece.numel())
        if places.size == 1 and shifts[0] != _NOWHERE:
            expected = values.of(at + int(shifts[0]), piece.numel())
        else:
            shift = _per_element(places, shifts, piece)
            position = torch.arange(at, at + piece.numel(), device=piece.device)
            expected = torch.where(shift != _NOWHERE, values.at(position + shift), 0)
        if not torch.equal(expected.to(piece.dtype), piece):
            raise _not_a_copy(name)


def _per_element(places: _Numbers, shifts: _Numbers, piece: torch.Tensor) -> torch.Tensor:
    """Spread the shifts of runs over the elements of a piece."""
    begins, own = (torch.from_numpy(part).to(piece.device) for part in (places, shifts))
    lengths = torch.diff(begins, append=torch.tensor([piece.numel()], device=piece.device))
    return torch.repeat_interleave(own, lengths)


def _by_source(
    name: str, runs: _Runs, flat: torch.Tensor, trainable: Sequence[TensorInfo], bases: _Numbers
) -> Iterator[Run]:
    """Cut runs of codes at the borders of checkpoint tensors."""
    for start, stop, code in _bounds(runs, flat):
        while start < stop:
            index = int(np.searchsorted(bases, code, side="right")) - 1
            count = min(stop - start, int(bases[index + 1]) - code)
            yield Run(trainable[index].name, code - int(bases[index]), name, start, count)
            start, code = start + count, code + count


def _refuse_unreadable(model: torch.nn.Module) -> None:
    """Refuse what this map could not see: quantised weights, and copies that are no parameters."""
    for name, module in model.named_modules():
        method = getattr(module, "quant_method", None)
        if method is not None and not type(method).__name__.startswith("Unquantized"):
            raise ConfigurationError(
                f"{name}: vLLM quantises it ({type(method).__name__}), and quantised weights can't be "
                "trained; use the unquantised model"
            )
        if hasattr(module, "W_UK_T") or hasattr(module, "W_UV"):
            raise ConfigurationError(
                f"{name}: vLLM multiplies with a rearranged copy of its weights (latent attention), which "
                "would keep the old values; use the Transformers engine"
            )


def _not_a_copy(name: str) -> ConfigurationError:
    return ConfigurationError(
        f"{name}: vLLM's loader does not fill it with plain copies of the files' values alone (it scales, "
        "merges or adds to them, or fills it in part), so a member can't be written there; "
        "use another engine or model"
    )
