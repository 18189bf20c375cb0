"""`spec.model`: the base model that training starts from. It never looks at the weights themselves."""

from collections.abc import Iterator
from typing import Annotated

from dartes.spec.base import (
    Mutability,
    Quantity,
    Refusal,
    SecretName,
    SecretReference,
    SpecModel,
    Text,
    WeightType,
    about,
    exactly_one,
)
from dartes.spec.source import SourceText


class EmptyDirCache(SpecModel):
    """A cache that lives and dies with its pod."""

    size_limit: Annotated[Quantity, about("Most that the cache may hold, as a Kubernetes quantity (20Gi).")]


class ModelCache(SpecModel):
    """Where workers keep the downloaded base model between starts."""

    empty_dir: Annotated[EmptyDirCache | None, about("A cache in the pod: downloaded again by each pod.")] = (
        None
    )
    claim_name: Annotated[
        SecretName | None, about("An existing volume claim that all workers mount; downloaded once.")
    ] = None
    image: Annotated[
        Text | None,
        about("An image that holds the model, mounted as a volume.", min_length=1, max_length=512),
    ] = None

    def rules(self) -> Iterator[Refusal]:
        yield from exactly_one(
            self, "empty_dir", "claim_name", "image", advice="a model is cached in one place"
        )


class ModelSpec(SpecModel):
    """The base model and how its weights are served."""

    source: Annotated[
        SourceText,
        about(
            "The base model: hf://org/name (the hub), builtin://NAME (shipped with dartes), file:///path or "
            "a plain path (relative to the job file), pvc://claim/path, s3://bucket/path, gs://bucket/path.",
            min_length=1,
        ),
    ]
    revision: Annotated[
        Text | None,
        about("Branch, tag or commit of a hub model. A commit makes the run repeatable.", max_length=253),
    ] = None
    dtype: Annotated[
        WeightType,
        about("Number format in which members are served. The master weights are always Float32."),
    ] = WeightType.BFLOAT16
    secret_ref: Annotated[
        SecretReference | None,
        about("Secret with the key `token` for a source that asks for one.", Mutability.SUSPENDED),
    ] = None
    cache: Annotated[
        ModelCache | None, about("Where workers keep the downloaded model.", Mutability.SUSPENDED)
    ] = None
