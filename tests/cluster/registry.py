"""A registry of images on this host: serves those of the test cluster's archives to whoever has the password.

It takes new names for what it holds, so that images can be copied as to a mirror. As much of the protocol
(OCI distribution) as skopeo and containerd speak; nothing is kept when it stops.
"""

import base64
import hashlib
import json
import re
import secrets
import tarfile
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

CHUNK: Final = 2**20
MOST_HOLD_SECONDS: Final = 60.0
DIGEST: Final = "Docker-Content-Digest"
_PATH: Final = re.compile(
    r"/v2/(?P<name>[a-z0-9/_.-]+)/(?P<kind>manifests|tags|blobs/uploads|blobs)/(?P<what>.*)"
)
_TAGGED: Final = re.compile(r"docker\.io/(?P<name>[^:]+):(?P<tag>.+)")
NAME: Final = "io.containerd.image.name"


@dataclass(frozen=True)
class Piece:
    """A blob: a part of a file, or bytes that were sent."""

    size: int
    file: Path | None = None
    offset: int = 0
    content: bytes = b""

    def chunks(self) -> Iterable[bytes]:
        """Its bytes, a megabyte at a time."""
        if self.file is None:
            yield self.content
            return
        left = self.size
        with self.file.open("rb") as file:
            file.seek(self.offset)
            while left:
                chunk = file.read(min(CHUNK, left))
                left -= len(chunk)
                yield chunk

    def bytes(self) -> bytes:
        """All of it."""
        return b"".join(self.chunks())


@dataclass
class Store:
    """What the registry holds, and who asked for what."""

    blobs: dict[str, Piece] = field(default_factory=dict)
    manifests: dict[tuple[str, str], tuple[str, bytes]] = field(default_factory=dict)
    """Media type and content by repository and tag or digest."""
    uploads: dict[str, bytes] = field(default_factory=dict)
    asked_for: list[str] = field(default_factory=list)
    """Manifests that somebody with the password asked for, as REPOSITORY@DIGEST or REPOSITORY:TAG."""
    refused: int = 0
    answers: threading.Event = field(default_factory=threading.Event)
    """Manifests are held back while a test has cleared it."""

    def __post_init__(self) -> None:
        self.answers.set()

    @classmethod
    def of_archives(cls, archives: Iterable[Path]) -> Self:
        """The images of OCI archives under the names that they have there, without `docker.io/`."""
        store = cls()
        entries: list[Mapping[str, Any]] = []
        for path in archives:
            with tarfile.open(path, "r:") as archive:
                for member in archive:
                    if member.name.startswith("blobs/sha256/"):
                        digest = f"sha256:{member.name.rpartition('/')[2]}"
                        store.blobs[digest] = Piece(member.size, path, member.offset_data)
                    elif member.name == "index.json":
                        index = archive.extractfile(member)
                        assert index is not None
                        entries += json.load(index)["manifests"]
        for entry in entries:
            found = _TAGGED.fullmatch(entry.get("annotations", {}).get(NAME, ""))
            if found is not None and entry["digest"] in store.blobs:
                content = store.blobs[entry["digest"]].bytes()
                store.keep(found["name"], found["tag"], entry["mediaType"], content)
        return store

    def keep(self, name: str, reference: str, media_type: str, content: bytes) -> str:
        """Take a manifest in under a name; returns its digest."""
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self.manifests[name, reference] = self.manifests[name, digest] = media_type, content
        return digest


class Registry:
    """The registry while it runs: `with Registry(archives) as registry`."""

    def __init__(self, archives: Iterable[Path]) -> None:
        self.store = Store.of_archives(archives)
        self.user = "puller"
        self.password = secrets.token_hex(8)
        expected = "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        handler = type("Handler", (_Handler,), {"store": self.store, "expected": expected})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def address(self) -> str:
        """Where nodes and programs of this host find it."""
        return f"127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # containerd tries TLS first on this host, and takes plain HTTP only where the refusal is an HTTP answer.
    default_request_version = "HTTP/1.1"
    store: Store
    expected: str

    def do_GET(self) -> None:
        if not self._knows_the_password():
            return
        found = _PATH.fullmatch(urlsplit(self.path).path)
        if found is None:
            self._answer(HTTPStatus.OK if self.path == "/v2/" else HTTPStatus.NOT_FOUND)
        elif found["kind"] == "tags":
            own = [reference for name, reference in self.store.manifests if name == found["name"]]
            tags = [reference for reference in own if not reference.startswith("sha256:")]
            content = json.dumps({"name": found["name"], "tags": tags}).encode()
            self._answer(HTTPStatus.OK, piece=Piece(len(content), content=content))
        elif found["kind"] == "manifests":
            manifest = self.store.manifests.get((found["name"], found["what"]))
            if manifest is None:
                self._answer(HTTPStatus.NOT_FOUND)
                return
            # A node that has the content already asks with HEAD alone.
            mark = "@" if found["what"].startswith("sha256:") else ":"
            self.store.asked_for.append(f"{found['name']}{mark}{found['what']}")
            self.store.answers.wait(MOST_HOLD_SECONDS)
            digest = f"sha256:{hashlib.sha256(manifest[1]).hexdigest()}"
            headers = {"Content-Type": manifest[0], DIGEST: digest}
            self._answer(HTTPStatus.OK, headers, Piece(len(manifest[1]), content=manifest[1]))
        else:
            blob = self.store.blobs.get(found["what"])
            if blob is None:
                self._answer(HTTPStatus.NOT_FOUND)
            else:
                self._answer(HTTPStatus.OK, {DIGEST: found["what"]}, blob)

    do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for

    def do_POST(self) -> None:
        content = self._content()
        if self._knows_the_password():
            upload = secrets.token_hex(8)
            self.store.uploads[upload] = content
            self._answer(HTTPStatus.ACCEPTED, {"Location": f"{urlsplit(self.path).path}{upload}"})

    def do_PATCH(self) -> None:
        content = self._content()
        if self._knows_the_password():
            path = urlsplit(self.path).path
            upload = path.rpartition("/")[2]
            self.store.uploads[upload] += content
            received = f"0-{len(self.store.uploads[upload]) - 1}"
            self._answer(HTTPStatus.ACCEPTED, {"Location": path, "Range": received})

    def do_PUT(self) -> None:
        content = self._content()
        if not self._knows_the_password():
            return
        parts = urlsplit(self.path)
        found = _PATH.fullmatch(parts.path)
        assert found is not None, self.path
        if found["kind"] == "manifests":
            kind = self.headers.get("Content-Type", "")
            digest = self.store.keep(found["name"], found["what"], kind, content)
        else:
            content = self.store.uploads.pop(found["what"]) + content
            digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
            assert parse_qs(parts.query)["digest"] == [digest]
            self.store.blobs[digest] = Piece(len(content), content=content)
        self._answer(HTTPStatus.CREATED, {"Location": parts.path, DIGEST: digest})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing: the tests look at the store."""

    def _knows_the_password(self) -> bool:
        if self.headers.get("Authorization") == self.expected:
            return True
        self.store.refused += 1
        self._answer(HTTPStatus.UNAUTHORIZED, {"WWW-Authenticate": 'Basic realm="tests"'})
        return False

    def _content(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return b"".join(self._chunks())
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _chunks(self) -> Iterable[bytes]:
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _answer(
        self, status: HTTPStatus, headers: Mapping[str, str] | None = None, piece: Piece | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {"Docker-Distribution-Api-Version": "registry/2.0", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(0 if piece is None else piece.size))
        self.end_headers()
        if piece is not None and self.command != "HEAD":
            for chunk in piece.chunks():
                self.wfile.write(chunk)
