"""`spec.generation`: how answers are decoded, the same for training and evaluation."""

from typing import Annotated

from pydantic import Field, Strict

from dartes.spec.base import Integer, Real, SpecModel, about


class GenerationSpec(SpecModel):
    """Decoding: length, randomness, stop texts, and how prompts are grouped."""

    max_new_tokens: Annotated[
        Integer,
        about("Longest answer, in tokens; a longer one is cut and graded as it is.", ge=1, le=131_072),
    ] = 1024
    temperature: Annotated[
        Real, about("0 decodes greedily; above 0 samples, seeded from the run's seed.", ge=0, le=10)
    ] = 0.0
    top_p: Annotated[
        Real,
        about("Sample from the smallest set of tokens that holds this share of probability.", gt=0, le=1),
    ] = 1.0
    stop: Annotated[
        tuple[Annotated[str, Strict(), Field(min_length=1, max_length=256)], ...],
        about("Texts that end an answer; they are not part of it.", max_length=16),
    ] = ()
    token_budget: Annotated[
        Integer,
        about(
            "Most tokens (prompts and answers, padding included) that are generated in one group. It decides "
            "which prompts share a tensor, so it is fixed and never derived from the memory at hand.",
            ge=1,
            le=16_777_216,
        ),
    ] = 16_384
