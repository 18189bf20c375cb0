"""`spec.evaluation`: held-out accuracy during the run. It never decides the weights."""

from collections.abc import Iterator
from typing import Annotated

from dartes.spec.base import Boolean, Integer, Real, Refusal, SpecModel, Text, about
from dartes.spec.dataset import SingleDataset
from dartes.spec.task import TaskSpec

RESERVED_NAMES = ("train", "reward")
"""Names of other digests, beside which those of sets stand."""


class EvaluationSet(SpecModel):
    """One held-out set: problems, and the task that grades them."""

    name: Annotated[
        Text,
        about(
            "Name of the set in metrics and reports: lower-case letters, digits and dashes.",
            min_length=1,
            max_length=40,
            pattern=r"^[a-z]([a-z0-9-]*[a-z0-9])?$",
        ),
    ]
    dataset: Annotated[SingleDataset, about("The problems; the same fields as spec.dataset, one source.")]
    task: Annotated[
        TaskSpec | None,
        about("How they are asked and graded; the same fields as spec.task. If not set, spec.task."),
    ] = None
    samples: Annotated[Integer, about("Answers per problem; accuracy is their mean.", ge=1, le=1024)] = 1
    temperature: Annotated[Real, about("0 decodes greedily; above 0 samples.", ge=0, le=10)] = 0.0

    def rules(self) -> Iterator[Refusal]:
        if self.name in RESERVED_NAMES:
            yield Refusal(
                "name",
                f"{self.name!r} is what records call something else; allowed: any other name, for example "
                f"{self.name}-set",
            )
        if self.samples > 1 and self.temperature == 0:
            yield Refusal(
                "samples",
                f"{self.samples} greedy answers are all the same; set temperature above 0, or samples: 1",
                ("samples", "temperature"),
            )


class EvaluationSpec(SpecModel):
    """Which held-out sets are evaluated, and how often."""

    sets: Annotated[
        tuple[EvaluationSet, ...],
        about(
            "Held-out sets. All are evaluated before the first and after the last iteration.", max_length=16
        ),
    ] = ()
    holdouts: Annotated[
        tuple[EvaluationSet, ...],
        about(
            "Sets of other abilities, such as IFEval or MMLU, evaluated likewise: reports say what was "
            "forgotten against the base model. They never choose the best iteration.",
            max_length=16,
        ),
    ] = ()
    every_iterations: Annotated[
        Integer, about("Evaluate also after every so many iterations.", ge=1, le=1_000_000)
    ] = 10
    parent: Annotated[
        Boolean, about("Evaluate the unperturbed model on each training batch too, for diagnosis.")
    ] = False
    log_completions: Annotated[
        Integer, about("Answers per evaluation set that are kept as text, for reading.", ge=0, le=1000)
    ] = 0

    def rules(self) -> Iterator[Refusal]:
        seen: dict[str, str] = {}
        for kind, entries in (("sets", self.sets), ("holdouts", self.holdouts)):
            for position, entry in enumerate(entries):
                place = f"{kind}[{position}]"
                first = seen.setdefault(entry.name, place)
                if first != place:
                    yield Refusal(
                        f"{place}.name", f"{entry.name!r} already names {first}; give every set its own name"
                    )

    @property
    def all_sets(self) -> tuple[EvaluationSet, ...]:
        """The sets, then the holdouts."""
        return (*self.sets, *self.holdouts)
