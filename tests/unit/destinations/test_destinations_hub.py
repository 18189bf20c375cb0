"""The hub as destination, against a stand-in for its HTTP interface: one commit, found again, refusals."""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from dartes.checkpoint import PROVENANCE_FILE
from dartes.destinations import deliver, open_destination
from dartes.errors import ConfigurationError, TransientError

from .models import ROW_HASH, Builder

URI = "hf://lab/tuned"
COMMIT = "c" * 40


class Hub:
    """What the stand-in holds and how it answers."""

    def __init__(self) -> None:
        self.exists = False
        self.private = False
        self.files: dict[str, bytes] = {}
        self.commits: list[str] = []
        self.token = "writes"
        self.broken = False


class _Handler(BaseHTTPRequestHandler):
    hub: Hub

    def do_HEAD(self) -> None:
        self._file()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if self.hub.broken:
            return self._answer(503, {"error": "busy"})
        if not self.hub.exists:
            self._answer(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
        elif path.startswith("/api/models/lab/tuned/tree"):
            listed = [
                {"type": "file", "path": name, "size": len(c), "oid": "0"}
                for name, c in self.hub.files.items()
            ]
            self._answer(200, listed)
        elif path.startswith("/api/models/lab/tuned"):
            siblings = [{"rfilename": name} for name in self.hub.files]
            self._answer(200, {"id": "lab/tuned", "sha": COMMIT, "siblings": siblings, "private": True})
        else:
            self._file()
        return None

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = self._chunks()
        if self.headers.get("Authorization") != f"Bearer {self.hub.token}":
            return self._answer(401, {"error": "Invalid username or password."})
        if self.path == "/api/repos/create":
            wanted = json.loads(body)
            self.hub.private = bool(wanted.get("private")) or wanted.get("visibility") == "private"
            self.hub.exists = True
            self.hub.files.setdefault(".gitattributes", b"")
            self._answer(200, {"url": f"http://{self.headers['Host']}/lab/tuned"})
        elif "/preupload/" in self.path:
            asked = json.loads(body)["files"]
            self._answer(
                200, {"files": [{**f, "uploadMode": "regular", "shouldIgnore": False} for f in asked]}
            )
        elif "/commit/" in self.path:
            for line in body.decode().splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    self.hub.files[entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
                elif entry["key"] == "header":
                    self.hub.commits.append(entry["value"]["summary"])
            self._answer(
                200,
                {
                    "commitUrl": f"http://{self.headers['Host']}/lab/tuned/commit/{COMMIT}",
                    "commitOid": COMMIT,
                },
            )
        else:
            self._answer(404, {"error": self.path})
        return None

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        return body

    def _file(self) -> None:
        name = self.path.partition("?")[0].rpartition("/")[2]
        content = self.hub.files.get(name)
        if content is None:
            self._answer(404, {"error": "Entry not found"}, {"X-Error-Code": "EntryNotFound"})
            return
        etag = hashlib.sha1(content).hexdigest()
        self.send_response(200)
        self.send_header("ETag", f'"{etag}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def _answer(self, code: int, document: Any, headers: dict[str, str] | None = None) -> None:
        raw = json.dumps(document).encode()
        self.send_response(code)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        """Silence."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """An empty hub, and the environment of an export pod whose token may write to it."""
    found = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": found}))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    monkeypatch.setenv("HF_ENDPOINT", address)
    monkeypatch.setenv("HF_TOKEN", "writes")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_model_is_one_commit_to_a_private_repository_and_found_the_second_time(
    hub: Hub, tmp_path: Path
) -> None:
    build = Builder(b"weights" * 10)
    for already in (False, True):
        done = deliver(open_destination(URI), ROW_HASH, build)
        assert (done.uri, done.weight_digest, done.iteration, done.already) == (URI, build.digest, 4, already)
    assert build.calls == 1
    assert hub.private
    assert len(hub.commits) == 1
    assert set(hub.files) == {".gitattributes", *build.names}
    assert hub.files["model.safetensors"] == build.content("model.safetensors")
    assert not list((tmp_path / "cache").iterdir())


def test_another_model_there_is_refused(hub: Hub) -> None:
    deliver(open_destination(URI), ROW_HASH, Builder(b"w"))
    with pytest.raises(ConfigurationError, match="holds another model"):
        deliver(open_destination(URI), "ff" * 32, Builder())
    hub.files = {"model.safetensors": b"mine"}
    with pytest.raises(ConfigurationError, match=r"holds 'model\.safetensors', and no exported model"):
        deliver(open_destination(URI), ROW_HASH, Builder())
    hub.files = {PROVENANCE_FILE: b"{}"}
    with pytest.raises(ConfigurationError, match="isn't one of ours"):
        deliver(open_destination(URI), ROW_HASH, Builder())


def test_a_token_without_the_right_to_write_is_found_before_the_model_is_built(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "reads")
    build = Builder()
    with pytest.raises(ConfigurationError, match=r"the hub refuses \(401\).*export\.secretRef"):
        deliver(open_destination(URI), ROW_HASH, build)
    assert build.calls == 0


def test_a_hub_that_is_away_is_worth_another_try(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("time.sleep", lambda _: None)  # between the library's own attempts
    with pytest.raises(TransientError, match="can't be reached"):
        deliver(open_destination(URI), ROW_HASH, Builder())


def test_a_busy_hub_is_worth_another_try(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.broken = True
    monkeypatch.setattr("time.sleep", lambda _: None)  # between the library's own attempts
    with pytest.raises(TransientError, match="answers 503"):
        deliver(open_destination(URI), ROW_HASH, Builder())
