"""Asking a coordinator never fails for want of an answer."""

import socket
import time

from dartes.cli.control import STATUS_SECONDS, ControlClient
from dartes.rpc import tls


def test_nobody_there_is_no_answer_and_no_error() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    client = ControlClient(f"127.0.0.1:{port}", tls.issue()[tls.Role.CONTROL])
    started = time.monotonic()
    assert client.status() is None
    assert time.monotonic() - started < STATUS_SECONDS + 1
    client.close()
