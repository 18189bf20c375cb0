"""`spec.es`: the evolution strategy.

Defaults are the reference constants for models of about 1.5 B parameters. It checks what was written and
computes nothing: the algorithm is in `dartes.difficulty`.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from dartes.spec.base import (
    Boolean,
    Integer,
    Mutability,
    Real,
    Refusal,
    SpecModel,
    WeightType,
    about,
)

FIXED = Mutability.FIXED
LARGEST_SEED = 2**63 - 1


class MasterType(StrEnum):
    """Number format of the master weights: Float32 alone is exact enough for small updates."""

    FLOAT32 = "Float32"


class EsSpec(SpecModel):
    """Population, step sizes, batch and length of the run."""

    population_size: Annotated[
        Integer, about("Members (perturbed models) per iteration, N.", FIXED, ge=2, le=4096)
    ] = 30
    sigma: Annotated[
        Real, about("Standard deviation of the noise added to every parameter.", FIXED, gt=0, le=1)
    ] = 0.001
    learning_rate: Annotated[
        Real, about("Step size, alpha: the update is alpha / N times the weighted noise.", FIXED, gt=0, le=1)
    ] = 0.0005
    batch_size: Annotated[
        Integer, about("Problems that every member answers in one iteration, B.", FIXED, ge=1, le=65_536)
    ] = 200
    seed: Annotated[
        Integer, about("Seed of the run: all randomness comes from it.", FIXED, ge=0, le=LARGEST_SEED)
    ] = 0
    iterations: Annotated[
        Integer | None,
        about(
            "Length of the run in iterations; this or epochs, and neither where dataset.stages have their "
            "own. It may grow later, also after the end.",
            Mutability.SUSPENDED,
            ge=1,
            le=1_000_000,
            upwards=True,
        ),
    ] = None
    epochs: Annotated[
        Integer | None,
        about(
            "Length of the run in passes over the data set; this or iterations. It may grow later.",
            Mutability.SUSPENDED,
            ge=1,
            le=100_000,
            upwards=True,
        ),
    ] = None
    antithetic: Annotated[
        Boolean,
        about("Use each seed twice, with noise added and subtracted; the population is then even.", FIXED),
    ] = False
    master_dtype: Annotated[MasterType, about("Number format of the master weights.", FIXED)] = (
        MasterType.FLOAT32
    )
    served_dtype: Annotated[
        WeightType | None,
        about("Number format in which members are served. If not set, model.dtype.", FIXED),
    ] = None
    slices_per_member: Annotated[
        Integer,
        about(
            "Parts into which a member's batch is cut, so that more workers than members can help.",
            Mutability.SUSPENDED,
            ge=1,
            le=64,
        ),
    ] = 1

    def rules(self) -> Iterator[Refusal]:
        if self.iterations is not None and self.epochs is not None:
            yield Refusal(
                "epochs",
                "iterations is set too, and both are the length of the run: remove one of the two",
                ("iterations", "epochs"),
            )
        if self.antithetic and self.population_size % 2:
            yield Refusal(
                "population_size",
                f"{self.population_size} is odd, and es.antithetic pairs the members; "
                f"allowed with it: even numbers, for example {self.population_size + 1}",
                ("population_size", "antithetic"),
            )
        if self.slices_per_member > self.batch_size:
            yield Refusal(
                "slices_per_member",
                f"{self.slices_per_member} slices of a batch of {self.batch_size} would be empty; "
                f"allowed: at most es.batchSize",
                ("slices_per_member", "batch_size"),
            )
