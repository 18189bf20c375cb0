"""A model of the hub in a cache that many workers may share: one downloads, the others read.

The lock is the kernel's, so it ends with whoever held it; a mark beside it says that a download came to
its end. A model that has its mark is never asked for at the hub again: whoever wants a newer one names its
commit.
"""

import errno
import fcntl
import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from dartes.errors import ConfigurationError, TransientError

LOCK_POLL_SECONDS: Final = 1.0
SAY_EVERY_SECONDS: Final = 30.0
WAIT_SECONDS: Final = 3600.0
"""How long a worker waits for another one's download before it gives up, to be started again."""

_READ_ONLY: Final = {errno.EROFS, errno.EACCES, errno.EPERM}

log = logging.getLogger(__name__)

Fetch = Callable[[str | None, bool], Path]
"""(revision, only what the cache has) -> folder; fetches what is missing unless told otherwise."""


def from_shared_cache(
    home: Path,
    repository: str,
    revision: str | None,
    fetch: Fetch,
    pause: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Path:
    """The folder of a model, downloaded by one of all that share the cache `home`.

    Raises
    ------
    ConfigurationError
        The cache can't be written to and does not hold the model.
    TransientError
        Another worker has been downloading it for an hour.
    """
    locks = home / "dartes"
    key = hashlib.sha256(f"{repository} {revision or ''}".encode()).hexdigest()[:24]
    mark, lock = locks / f"{key}.complete", locks / f"{key}.lock"
    found = _marked(mark, fetch)
    if found is not None:
        return found
    try:
        locks.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o660)
    except OSError as error:
        if error.errno not in _READ_ONLY:
            raise
        log.info("%s can't be written to; only what it holds is used", home)
        try:
            return fetch(revision, True)
        except TransientError as missing:
            raise ConfigurationError(
                f"{home}: can't be written to and does not hold {repository} ({missing})"
            ) from missing
    try:
        with _held(descriptor, lock, repository, pause, clock):
            found = _marked(mark, fetch)
            if found is not None:
                log.info("%s has been downloaded by another worker", repository)
                return found
            log.info("downloading %s", repository)
            folder = fetch(revision, False)
            # A snapshot's folder is named after its commit: the others take that very one.
            partial = mark.with_name(f"{mark.name}.partial")
            partial.write_text(folder.name, encoding="utf-8")
            partial.replace(mark)
            return folder
    finally:
        os.close(descriptor)


def _marked(mark: Path, fetch: Fetch) -> Path | None:
    try:
        commit = mark.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
    try:
        return fetch(commit, True)
    except TransientError:
        log.warning("%s: the model that it names is not in the cache any more", mark)
        return None


@contextmanager
def _held(
    descriptor: int,
    lock: Path,
    repository: str,
    pause: Callable[[float], object],
    clock: Callable[[], float],
) -> Iterator[None]:
    began = clock()
    say_at = began
    while True:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError as error:
            if error.errno in {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}:
                log.warning(
                    "%s: this file system has no locks (%s); every worker downloads for itself",
                    lock,
                    error.strerror,
                )
                break
            if error.errno not in {errno.EAGAIN, errno.EACCES}:
                raise
        waited = clock() - began
        if waited > WAIT_SECONDS:
            raise TransientError(
                f"{lock}: another worker has been downloading {repository} for {waited:.0f} s; trying again"
            )
        if clock() >= say_at:
            log.info("another worker is downloading %s; waiting for it", repository)
            say_at = clock() + SAY_EVERY_SECONDS
        pause(LOCK_POLL_SECONDS)
    yield
