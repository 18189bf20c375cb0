"""Where weights, problems and exports come from or go to: one spelling, `scheme://rest`, for all of them.

It checks spelling only; whether a place exists is for whoever opens it.
"""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote

from pydantic import AfterValidator, Field, GetJsonSchemaHandler, Strict
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from dartes.spec.base import SOURCE_KEY

SOURCE_ERROR = "dartes_source"
_HUB_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_REVISION = re.compile(r"[A-Za-z0-9._/-]{1,200}")
_BUILTIN_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")


class Scheme(StrEnum):
    """The kinds of place; a text without `://` is a local path and counts as FILE."""

    BUILTIN = "builtin"
    FILE = "file"
    HUB = "hf"
    PVC = "pvc"
    S3 = "s3"
    GCS = "gs"


@dataclass(frozen=True)
class Source:
    """A place: its scheme, and what follows it (a path, `org/name`, `bucket/key` or a built-in's name).

    `revision` is what follows the `@` of a data set on the hub.
    """

    scheme: Scheme
    rest: str
    revision: str | None = None

    def path(self, base_dir: Path) -> Path:
        """Return the local path of a FILE source; relative ones are relative to the job file's folder."""
        return base_dir / Path(self.rest).expanduser()


def parse_source(text: str) -> Source:
    """Split a source; raises ValueError, in plain words, where it is not spelt as one."""
    head, separator, rest = text.partition("://")
    if not separator:
        if not text.strip() or "\x00" in text:
            raise ValueError("a path must not be empty")
        return Source(Scheme.FILE, text)
    try:
        scheme = Scheme(head)
    except ValueError:
        near = get_close_matches(head.lower(), [scheme.value for scheme in Scheme], n=1)
        hint = f"; did you mean {near[0]}://?" if near else ""
        known = ", ".join(f"{scheme.value}://" for scheme in Scheme)
        raise ValueError(f"unknown scheme; allowed: {known} or a local path{hint}") from None
    if scheme is Scheme.FILE:
        rest = unquote(rest)
    if not rest.strip("/") or "\x00" in rest:
        raise ValueError(f"nothing follows {head}://; allowed: {_EXAMPLES[scheme]}")
    revision = None
    if scheme is Scheme.HUB and rest.startswith("datasets/") and "@" in rest:
        rest, _, revision = rest.partition("@")
        if not _REVISION.fullmatch(revision):
            raise ValueError(f"not a revision after the @; allowed: {_EXAMPLES[scheme]}")
    parts = rest.split("/")
    if scheme is Scheme.HUB:
        names = parts[1:] if parts[0] == "datasets" else parts
        if not 1 <= len(names) <= 2 or not all(_HUB_PART.fullmatch(part) for part in names):
            raise ValueError(f"not a repository's name; allowed: {_EXAMPLES[scheme]}")
    if scheme is Scheme.BUILTIN and not _BUILTIN_NAME.fullmatch(rest):
        raise ValueError(f"not a built-in's name; allowed: {_EXAMPLES[scheme]}")
    return Source(scheme, rest, revision)


_EXAMPLES = {
    Scheme.BUILTIN: "builtin://addition",
    Scheme.FILE: "file:///absolute/path, or a plain path",
    Scheme.HUB: "hf://org/name (a model) or hf://datasets/org/name[@revision] (a data set)",
    Scheme.PVC: "pvc://claim/path",
    Scheme.S3: "s3://bucket/path",
    Scheme.GCS: "gs://bucket/path",
}


def _spelt_as_source(text: str) -> str:
    if text:
        try:
            parse_source(text)
        except ValueError as error:
            raise PydanticCustomError(SOURCE_ERROR, "{why}", {"why": str(error)}) from None
    return text


class _Marked:
    """Marks a source in the JSON schema; unlike a field's own extras, a field's description can't undo it."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {**handler(schema), SOURCE_KEY: True}


SourceText = Annotated[
    str,
    Strict(),
    Field(max_length=1024),
    AfterValidator(_spelt_as_source),
    _Marked(),
]
"""A source as text, checked for its spelling."""
