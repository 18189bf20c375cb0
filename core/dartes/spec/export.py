"""`spec.export`: where the trained model goes when a run ends."""

from typing import Annotated

from pydantic import PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from dartes.spec.base import SecretReference, SpecModel, about
from dartes.spec.source import SourceText

BEST = "Best"
LAST = "Last"


def _iteration(value: object) -> int | str:
    if value in (BEST, LAST) and isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 1_000_000:
        return value
    raise PydanticCustomError("dartes_iteration", "not an iteration; allowed: Best, Last or 0 to 1000000")


ExportIteration = Annotated[
    int | str,
    PlainValidator(_iteration),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer", "minimum": 0, "maximum": 1_000_000}, {"enum": [BEST, LAST]}],
            "x-kubernetes-int-or-string": True,
        }
    ),
]


class ExportSpec(SpecModel):
    """A checkpoint in the hub's layout, written after the last iteration."""

    destination: Annotated[
        SourceText,
        about(
            "Where it is written: pvc://claim/path, s3://bucket/path, gs://bucket/path, hf://org/name.",
            min_length=1,
        ),
    ]
    secret_ref: Annotated[
        SecretReference | None, about("Secret with the credentials of the destination.")
    ] = None
    iteration: Annotated[
        ExportIteration,
        about("Which state: Last, Best (by the first evaluation set), or the number of an iteration."),
    ] = LAST
