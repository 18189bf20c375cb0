"""What all parts of the job model share: strict scalars, the base model, and how a field describes itself.

It knows pydantic and nothing of the fields themselves. A description, a mutability and bounds stand beside
each field, because the CRD, the messages and the reference are all generated from the models.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, Strict, WithJsonSchema, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

MUTABILITY_KEY = "x-dartes-mutability"
CORE_TYPE_KEY = "x-dartes-core-type"
UPWARDS_KEY = "x-dartes-upwards"
SOURCE_KEY = "x-dartes-source"
RULE_ERROR = "dartes_rule"

Boolean = Annotated[bool, Strict()]
Integer = Annotated[int, Strict()]
Real = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Text = Annotated[str, Strict()]


class Mutability(StrEnum):
    """When a field may change; a field without one follows the field that holds it."""

    FIXED = "I"
    SUSPENDED = "S"
    ANY_TIME = "M"


class WeightType(StrEnum):
    """Number format of weights, as job files write it."""

    FLOAT32 = "Float32"
    BFLOAT16 = "BFloat16"
    FLOAT16 = "Float16"


@dataclass(frozen=True)
class Refusal:
    """A broken rule between fields of one model: the field to name (attribute path), and why.

    `involved` lists all attributes that the rule looked at, so that a rule broken only by another mistake
    is not reported twice.
    """

    field: str
    message: str
    involved: tuple[str, ...] = ()


def about(
    text: str,
    mutability: Mutability | None = None,
    *,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    pattern: str | None = None,
    core_type: str | None = None,
    upwards: bool = False,
) -> Any:
    """Describe a field: its meaning in plain words, when and how it may change, and its bounds."""
    extra: dict[str, Any] = {}
    if mutability is not None:
        extra[MUTABILITY_KEY] = mutability.value
    if core_type is not None:
        extra[CORE_TYPE_KEY] = core_type
    if upwards:
        extra[UPWARDS_KEY] = True
    return Field(
        description=text,
        json_schema_extra=extra or None,
        ge=ge,
        gt=gt,
        le=le,
        lt=lt,
        min_length=min_length,
        max_length=max_length,
        pattern=pattern,
    )


class SpecModel(BaseModel):
    """Base of every part of a job: frozen, camelCase in YAML, unknown fields refused, null means not set."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _null_means_not_set(cls, data: Any) -> Any:
        # The API server prunes nulls of fields that are not nullable before it fills in defaults; so do we.
        if not isinstance(data, Mapping):
            return data
        known = set(cls.model_fields) | {field.alias for field in cls.model_fields.values()}
        return {key: value for key, value in data.items() if value is not None or key not in known}

    @model_validator(mode="after")
    def _rules_hold(self) -> "SpecModel":
        refusals = tuple(self.rules())
        if refusals:
            words = "; ".join(f"{refusal.field}: {refusal.message}" for refusal in refusals)
            raise PydanticCustomError(RULE_ERROR, "{words}", {"words": words, "refusals": refusals})
        return self

    def rules(self) -> Iterator[Refusal]:
        """Yield each broken rule between the fields of this model."""
        yield from ()


def exactly_one(model: SpecModel, *names: str, advice: str) -> Iterator[Refusal]:
    """Yield a refusal unless exactly one of the named attributes is set (not None, not empty)."""
    present = [name for name in names if getattr(model, name) not in (None, "", ())]
    if len(present) == 1:
        return
    *first, last = (to_camel(name) for name in names)
    words = f"{', '.join(first)} or {last}"
    if present:
        both = " and ".join(to_camel(name) for name in present)
        yield Refusal(present[-1], f"{both} are both set; set exactly one of {words}: {advice}", names)
    else:
        yield Refusal(names[0], f"not set; set exactly one of {words}: {advice}", names)


def _int_or_string(value: Any) -> int | str:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise PydanticCustomError("int_or_string", "not an integer or a string")
    if isinstance(value, str) and len(value) > 256:
        raise PydanticCustomError("string_too_long", "longer than 256 characters", {"max_length": 256})
    return value


_INT_OR_STRING = WithJsonSchema(
    {
        "anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 256}],
        "x-kubernetes-int-or-string": True,
    }
)

IntOrString = Annotated[int | str, PlainValidator(_int_or_string), _INT_OR_STRING]
"""The one union that a CRD can express."""

IntAsText = Annotated[str, PlainValidator(lambda value: str(_int_or_string(value))), _INT_OR_STRING]
"""An integer or a text, kept as a text."""

_QUANTITY = r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"


def _quantity(value: Any) -> int | str:
    amount = _int_or_string(value)
    good = amount >= 0 if isinstance(amount, int) else re.fullmatch(_QUANTITY, amount)
    if not good:
        raise PydanticCustomError("quantity", "not a quantity")
    return amount


Quantity = Annotated[
    int | str,
    PlainValidator(_quantity),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string", "maxLength": 256, "pattern": _QUANTITY},
            ],
            "x-kubernetes-int-or-string": True,
        }
    ),
]
"""An amount of a resource, as Kubernetes writes it; never negative."""

OBJECT_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"

SecretName = Annotated[str, Strict(), Field(min_length=1, max_length=253, pattern=OBJECT_NAME)]
LabelKey = Annotated[str, Strict(), Field(min_length=1, max_length=317)]
LabelValue = Annotated[str, Strict(), Field(max_length=63)]


class SecretReference(SpecModel):
    """Name of a Secret in the job's namespace."""

    name: Annotated[SecretName, about("Name of the Secret in the job's own namespace.")]
