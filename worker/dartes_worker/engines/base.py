"""What a worker asks of an engine: where the served weights lie, and answers for a group of prompts.

Every engine maps each trained checkpoint element to memory exactly once, so that the noise and the update
know only checkpoint names and flat indices. Knows no particular engine, and imports no torch.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dartes.errors import ConfigurationError, TransientError
from dartes.tasks.base import Message, Prompt

__all__ = [
    "ContinuousEngine",
    "Engine",
    "EngineFingerprint",
    "Generation",
    "GenerationLimits",
    "Message",
    "OutOfMemory",
    "Prompt",
    "Segment",
    "ServedValues",
    "StagedStorage",
    "check_coverage",
    "generate_all",
]

ServedValues: TypeAlias = NDArray[np.uint16] | NDArray[np.float32]
"""Served weights: uint16 bit patterns for the 16-bit formats, float32 otherwise."""


class StagedStorage(Protocol):
    """Served weights that NumPy can't view (on a device, or held wider than served): copied by the piece."""

    def write(self, offset: int, values: ServedValues) -> None:
        """Copy `values` to the segment's elements `offset` and following."""

    def read(self, offset: int, count: int) -> ServedValues:
        """Return a copy of `count` elements of the segment from `offset` on."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Elements `start` to `start + count` of the checkpoint tensor `name`, as the engine stores them.

    `storage` is a flat writable view on the served memory itself, or a `StagedStorage` of that length.
    """

    name: str
    start: int
    count: int
    storage: ServedValues | StagedStorage


@dataclass(frozen=True, slots=True)
class GenerationLimits:
    """How answers are made: temperature 0 is greedy; an end token or a stop string ends an answer."""

    max_new_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Generation:
    """One answer: its text without special tokens and stop string, and how many tokens were generated.

    `token_count` includes the end token; `truncated` means that the limit came before any end.
    """

    text: str
    token_count: int
    truncated: bool


@dataclass(frozen=True, slots=True)
class EngineFingerprint:
    """What answers may depend on besides weights and groups; kept beside the journal, outside its hashes."""

    engine: str
    device: str
    dtype: str
    threads: int
    versions: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """A JSON object; equal fingerprints give equal objects."""
        return asdict(self)


class OutOfMemory(TransientError):  # noqa: N818 - a state of the machine; the worker pauses on it
    """The engine ran out of memory on one group; the numbers are in the message. Never splits the group."""


class Engine(Protocol):
    """One model, served. Not safe for concurrent calls; nothing is written while `generate` runs."""

    def fingerprint(self) -> EngineFingerprint:
        """Return what answers may depend on besides weights and groups."""

    def segments(self) -> Sequence[Segment]:
        """Return segments that cover every trained checkpoint element once; always the same ones."""

    def encode(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        """Return token ids per prompt, at least one each; ConfigurationError where the tokenizer can't."""

    def weights_changed(self) -> None:
        """Drop everything computed from the weights; called after every write."""

    def generate(
        self, group: Sequence[Sequence[int]], limits: GenerationLimits, seed: int | None
    ) -> list[Generation]:
        """Answer one generation group as a whole, in its order.

        `seed` (0 <= seed < 2**64) decides all sampling and is required for a temperature above 0. The same
        group, weights, limits and seed give the same answers on the same fingerprint. Raises OutOfMemory.
        """

    def close(self) -> None:
        """Release the memory; the engine is not used afterwards."""


@runtime_checkable
class ContinuousEngine(Protocol):
    """An engine that takes all groups at once: sequences that end make room for others."""

    @property
    def max_model_len(self) -> int:
        """Tokens of prompt and answer together that it was started for."""

    @property
    def placement(self) -> str:
        """Where the master weights lie and why, in one line for people."""

    def generate_all(
        self,
        groups: Sequence[Sequence[Sequence[int]]],
        limits: GenerationLimits,
        seeds: Sequence[int] | None,
    ) -> Iterator[tuple[int, list[Generation]]]:
        """Answer all groups; yields (number, answers) as groups are complete, to be read to the end.

        `seeds` has one per group; None where decoding is greedy.
        """

    def long_tail(self) -> tuple[float, float]:
        """Seconds, since last asked, in which few of a batch's sequences were left, and in which one was."""


def generate_all(
    engine: Engine,
    groups: Sequence[Sequence[Sequence[int]]],
    limits: GenerationLimits,
    seeds: Sequence[int] | None,
) -> Iterator[tuple[int, list[Generation]]]:
    """Answer groups with any engine: all at once where it can, else one after the other."""
    if isinstance(engine, ContinuousEngine):
        yield from engine.generate_all(groups, limits, seeds)
        return
    for number, group in enumerate(groups):
        yield number, engine.generate(group, limits, None if seeds is None else seeds[number])


def check_coverage(expected: Mapping[str, int], segments: Sequence[Segment], where: str) -> None:
    """Raise ConfigurationError unless the segments cover `expected` (name -> element count) exactly once.

    The message names the first tensors that are missing in part, covered twice or unknown.
    """
    by_name: dict[str, list[Segment]] = {name: [] for name in expected}
    problems: list[str] = []
    for segment in segments:
        if segment.name in by_name:
            by_name[segment.name].append(segment)
        else:
            problems.append(f"{segment.name}: not a trained tensor")
    for name, own in by_name.items():
        end = 0
        for segment in sorted(own, key=lambda segment: segment.start):
            if segment.start > end:
                problems.append(f"{name}: elements {end}..{segment.start} are served nowhere")
            elif segment.start < end:
                problems.append(f"{name}: elements {segment.start}..{end} are served twice")
            end = max(end, segment.start + segment.count)
        if not own:
            problems.append(f"{name}: served nowhere")
        elif end != expected[name]:
            problems.append(f"{name}: {end} of {expected[name]} elements are served")
    if problems:
        shown = "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if len(problems) > 5 else "")
        raise ConfigurationError(
            f"{where}: the engine does not serve every trained tensor exactly once: {shown}. "
            "Remove tensors that the architecture ignores from the files, or use another engine or model"
        )
