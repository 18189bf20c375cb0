"""An S3 server of this machine, asked over HTTP as in earnest."""

import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from .waiting import until


@contextmanager
def s3_server() -> Iterator[str]:
    """Run it; gives its address."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "MOTO_ALLOW_NONEXISTENT_REGION": "true"},
    )
    address = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        assert process.poll() is None, "the S3 server ended"
        try:
            with urllib.request.urlopen(f"{address}/moto-api/", timeout=5):
                return True
        except OSError:
            return False

    try:
        until(answers, "the S3 server answers", 60)
        yield address
    finally:
        process.kill()
        process.wait()


def refuse_after(server: str, calls: str) -> None:
    """From now on the server refuses access after so many calls ("inf" = never)."""
    request = urllib.request.Request(
        f"{server}/moto-api/reset-auth",
        data=calls.encode(),
        headers={"Content-Type": "text/plain"},
        method="POST",
    )
    with urllib.request.urlopen(request, timeout=10):
        pass
