"""The product's settings as the oracle takes them, which knows none of the product's types."""

from collections.abc import Sequence
from typing import Any

from dartes.difficulty import AlgorithmSettings
from dartes.tasks.rules import Fitness


def plain_stages(chosen: AlgorithmSettings, sizes: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    """The stages as the oracle takes them."""
    return [
        {
            "iterations": stage.iterations,
            "epochs": stage.epochs,
            "sets": [
                {
                    "count": count,
                    "weight": one.weight,
                    "by_score": one.rules.fitness is Fitness.SCORE,
                    "auxiliary_weight": one.rules.auxiliary_weight,
                    "against_parent": one.rules.against_parent,
                }
                for one, count in zip(stage.sets, counts, strict=True)
            ],
        }
        for stage, counts in zip(chosen.stages, sizes, strict=True)
    ]
