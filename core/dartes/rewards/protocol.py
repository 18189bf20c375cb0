"""The bytes between the pool and a grader process: length-prefixed frames in, fixed-layout replies out.

Requests are JSON. What comes back is struct-packed and checked field by field, so that nothing a grader
process sends can execute anything or be mistaken for another answer's grade.
"""

import hashlib
import json
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from dartes.tasks.base import JSON, Grade, Row

FRAME_LIMIT = 64 * 1024 * 1024
"""Bytes of the largest request."""

PAIR_LIMIT = FRAME_LIMIT - 1024
"""Bytes of a row and its answer, encoded, that always fit into a request of their own."""

REASON_LIMIT = 300
"""Bytes of the longest reason in a reply."""

READY = b"dartes-grader-2\n"
"""What a grader process sends once, when it has loaded its task."""

_ENCODE = json.JSONEncoder(separators=(",", ":")).encode
_LENGTH = struct.Struct(">I")
ANSWER_LIMIT = 256
"""Bytes of the longest answer in a reply; a longer one is replaced by its digest."""

_REPLY = struct.Struct(">IBddHH")  # position, passed, score, auxiliary, bytes of reason and answer to follow


class ProtocolError(Exception):
    """The other side sent something that is not of this protocol."""


@dataclass(frozen=True, slots=True)
class GradeRequest:
    """Answers to grade in their order, with their rows; all as `encoded` gives them.

    `flush_each` asks for a reply as soon as there is one.
    """

    rows: Sequence[str]
    completions: Sequence[str]
    seconds_per_answer: float
    flush_each: bool

    def encode(self) -> bytes:
        """The frame of this request."""
        rows, completions = ",".join(self.rows), ",".join(self.completions)
        head = f"{encoded(self.seconds_per_answer)},{encoded(self.flush_each)}"
        return _framed(f"[{head},[{rows}],[{completions}]]")


def encoded(value: "JSON | Row") -> str:
    """A value as JSON in ASCII; lone surrogates stay escaped, so any Python string can be sent."""
    return _ENCODE(value)


def frame(value: JSON) -> bytes:
    """A JSON value behind its length."""
    return _framed(encoded(value))


def _framed(text: str) -> bytes:
    body = text.encode("ascii")
    if len(body) > FRAME_LIMIT:
        raise ProtocolError(f"a request of {len(body):,} bytes; {FRAME_LIMIT:,} are allowed")
    return _LENGTH.pack(len(body)) + body


def frame_length(header: bytes) -> int:
    """The length that the four bytes before a frame announce."""
    length: int = _LENGTH.unpack(header)[0]
    if length > FRAME_LIMIT:
        raise ProtocolError(f"a frame of {length:,} bytes is announced; {FRAME_LIMIT:,} are allowed")
    return length


FRAME_HEADER_BYTES = _LENGTH.size


def encode_reply(position: int, grade: Grade) -> bytes:
    """One answer's grade as bytes."""
    reason = grade.reason.encode("utf-8", "replace")[:REASON_LIMIT]
    answer = grade.answer.encode("utf-8", "replace")
    if len(answer) > ANSWER_LIMIT:
        answer = b"sha256:" + hashlib.sha256(answer).hexdigest().encode()
    head = _REPLY.pack(position, grade.passed, grade.score, grade.auxiliary, len(reason), len(answer))
    return head + reason + answer


def take_reply(buffer: bytearray, expected: int) -> Grade | None:
    """Remove the next reply from the buffer; None while it is incomplete.

    Raises
    ------
    ProtocolError
        Where it is not the reply to the answer at position `expected`, or holds anything out of bounds.
    """
    if len(buffer) < _REPLY.size:
        return None
    position, passed, score, auxiliary, reason_bytes, answer_bytes = _REPLY.unpack_from(buffer)
    if position != expected or passed > 1 or reason_bytes > REASON_LIMIT or answer_bytes > ANSWER_LIMIT:
        raise ProtocolError("it sent something that is not a grade")
    if not (math.isfinite(score) and math.isfinite(auxiliary)):
        raise ProtocolError("it sent a score that is not a finite number")
    middle = _REPLY.size + reason_bytes
    end = middle + answer_bytes
    if len(buffer) < end:
        return None
    reason = bytes(buffer[_REPLY.size : middle]).decode("utf-8", "replace")
    answer = bytes(buffer[middle:end]).decode("utf-8", "replace")
    del buffer[:end]
    return Grade(bool(passed), score, auxiliary, reason, answer)
