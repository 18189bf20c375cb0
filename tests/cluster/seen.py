"""Waits for what a job shall come to, and tells, where it doesn't, what the job looks like then."""

from collections.abc import Callable

from .jobs import Job, until


def see(job: Job, condition: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    """Ask until the answer is true; AssertionError after `seconds`, with all that is known of the job."""
    try:
        until(lambda: condition() or None, f"{job.name}: {what}", seconds)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{job.describe()}") from None


def see_phase(job: Job, phase: str, seconds: float = 60.0) -> None:
    """Wait for a phase."""
    see(job, lambda: job.status.get("phase") == phase, f"phase {phase}", seconds)


def see_workers(job: Job, ready: int, of: int, seconds: float = 60.0) -> None:
    """Wait until there are so many workers that live, and so many of them are ready."""

    def there() -> bool:
        return (len(job.ready("worker")), len(job.live("worker"))) == (ready, of)

    see(job, there, f"{ready} of {of} workers ready", seconds)
