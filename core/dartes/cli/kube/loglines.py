"""A line of a pod's log for people: our JSON lines become `HH:MM:SS LEVEL pod message`, others stay.

Pure; times are shown in the zone of whoever reads them.
"""

import json
import re
from collections.abc import Iterator
from datetime import tzinfo

from dartes.cli.kube.objects import moment

_PREFIX = re.compile(r"^\[pod/(?P<pod>[^/\]]+)/[^\]]*\] ?")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def readable(line: str, pod: str | None, zone: tzinfo | None = None) -> Iterator[str]:
    """One line of `kubectl logs` as the lines to show.

    `pod` is whose log it is, None where kubectl's own prefix says so. `zone` None is the local time zone.
    """
    found = _PREFIX.match(line)
    text = line
    if found is not None:
        pod, text = found["pod"], line[found.end() :]
    parsed = _parsed(text)
    if parsed is None:
        yield _safe(text if found is None else f"{pod} {text}")
        return
    at = moment(parsed.get("time"))
    clock = "--:--:--" if at is None else at.astimezone(zone).strftime("%H:%M:%S")
    speaker = pod or parsed.get("pod") or parsed.get("role") or "-"
    first, *more = str(parsed["message"]).splitlines() or [""]
    yield _safe(f"{clock} {parsed.get('level', '-')} {speaker} {first}")
    for extra in more + str(parsed.get("exception") or "").splitlines():
        yield _safe(f"         {extra}")


def _parsed(text: str) -> dict[str, object] | None:
    if not text.startswith("{"):
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and "message" in document else None


def _safe(text: str) -> str:
    """Without characters that would steer the terminal: a model's text may be in a log."""
    return _UNPRINTABLE.sub("�", text)
