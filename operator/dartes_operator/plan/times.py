"""Times as the API server writes them, and back. No clock: every time is given."""

from datetime import UTC, datetime, timedelta


def parse_time(text: object) -> datetime | None:
    """Read an RFC 3339 time; None where there is none or it is no time."""
    if not isinstance(text, str) or not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def write_time(moment: datetime) -> str:
    """Write a time to the second in UTC, as Kubernetes does."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_until(moment: datetime, now: datetime) -> float:
    """Seconds from now to a moment, at least 0."""
    return max(0.0, (moment - now).total_seconds())


def after(moment: datetime, seconds: float) -> datetime:
    """The moment so many seconds later."""
    return moment + timedelta(seconds=seconds)
