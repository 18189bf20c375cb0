"""`spec.dataset`: the problems. It says where they are and which to take; loading them is `dartes.data`'s."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, Strict

from dartes.spec.base import (
    IntAsText,
    Integer,
    Real,
    Refusal,
    SecretReference,
    SpecModel,
    Text,
    about,
    exactly_one,
)
from dartes.spec.source import SourceText
from dartes.spec.task import TaskSpec

ColumnName = Annotated[str, Strict(), Field(min_length=1, max_length=128)]
FilterValues = Annotated[tuple[IntAsText, ...], Field(min_length=1, max_length=64)]
"""Compared as text, and so kept as text: `3` means what `'3'` means."""


class ProblemSelection(SpecModel):
    """Which problems of a source are taken, and what its columns are called."""

    source: Annotated[
        SourceText,
        about(
            "Where the problems are: hf://datasets/org/name[@revision], builtin://NAME, file:///path or a "
            "plain path to a JSONL, JSON, CSV, Parquet or Arrow file, or to a folder of them named by split "
            "(relative to the job file), pvc://, s3:// or gs://. Required, unless there are stages or a mix."
        ),
    ] = ""
    config: Annotated[
        Text | None, about("Configuration (subset) of a hub data set.", min_length=1, max_length=128)
    ] = None
    split: Annotated[
        Text,
        about(
            "Part of the data set, such as train. In a folder it names the file; one file is taken whole.",
            min_length=1,
            max_length=128,
        ),
    ] = "train"
    revision: Annotated[
        Text | None, about("Branch, tag or commit of a hub data set.", min_length=1, max_length=253)
    ] = None
    secret_ref: Annotated[
        SecretReference | None, about("Secret with the credentials of a source that asks for them.")
    ] = None
    max_problems: Annotated[
        Integer | None, about("Take only the first so many problems.", ge=1, le=10_000_000)
    ] = None
    columns: Annotated[
        dict[ColumnName, ColumnName],
        about(
            "Names of columns: the task's word on the left, the file's on the right (`answer: solution`).",
            max_length=32,
        ),
    ] = Field(default_factory=dict)
    filters: Annotated[
        dict[ColumnName, FilterValues],
        about(
            "Keep only rows whose column (as the file names it) holds one of the listed values, each an "
            "integer or a text, compared as text.",
            max_length=16,
        ),
    ] = Field(default_factory=dict)


class SingleDataset(ProblemSelection):
    """The problems of an evaluation set: one source."""

    source: Annotated[
        SourceText, about("Where the problems are; spelt as spec.dataset.source.", min_length=1)
    ]


class MixPart(ProblemSelection):
    """One of several data sets that are drawn from side by side."""

    source: Annotated[
        SourceText, about("Where the problems of this part are; spelt as dataset.source.", min_length=1)
    ]
    weight: Annotated[
        Real, about("Share of this part in each batch, relative to the others.", gt=0, le=1e6)
    ] = 1.0
    task: Annotated[TaskSpec | None, about("How this part is asked and graded. If not set, spec.task.")] = (
        None
    )


class DatasetStage(ProblemSelection):
    """One of several data sets that are trained on one after the other."""

    source: Annotated[
        SourceText, about("Where the problems of this stage are; spelt as dataset.source.", min_length=1)
    ]
    iterations: Annotated[Integer | None, about("Length of the stage in iterations.", ge=1, le=1_000_000)] = (
        None
    )
    epochs: Annotated[Integer | None, about("Length of the stage in epochs.", ge=1, le=100_000)] = None
    task: Annotated[TaskSpec | None, about("How this stage is asked and graded. If not set, spec.task.")] = (
        None
    )

    def rules(self) -> Iterator[Refusal]:
        yield from exactly_one(self, "iterations", "epochs", advice="it is the length of the stage")


class DatasetSpec(ProblemSelection):
    """The problems: one source, or several in stages or mixed. An empty `source` stands for not set."""

    stages: Annotated[
        tuple[DatasetStage, ...], about("Data sets to train on one after the other.", max_length=16)
    ] = ()
    mix: Annotated[
        tuple[MixPart, ...], about("Data sets to draw each batch from, by weight.", max_length=16)
    ] = ()

    def rules(self) -> Iterator[Refusal]:
        yield from exactly_one(
            self,
            "source",
            "stages",
            "mix",
            advice="it says where the problems are, for example source: builtin://addition",
        )
