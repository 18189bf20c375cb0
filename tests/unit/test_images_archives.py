"""Archives hold what a node lacks and nothing else; contexts are equal where sources are."""

import hashlib
import json
import os
import tarfile
from pathlib import Path

import pytest

from dartes import __version__
from testcluster.archives import Image, blob_path, remove_unused, write_archive
from testcluster.build_context import FILES, FOLDERS, TIME_OF_CHANGE, VERSION_FILE, Context
from testcluster.images import image_name, pip_configuration

ROOT = Path(__file__).resolve().parents[2]


def put(layout: Path, content: bytes) -> str:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    path = blob_path(layout, digest)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return digest


def image(layout: Path, *contents: bytes) -> Image:
    blobs = tuple(put(layout, content) for content in contents)
    return Image({"mediaType": "m", "digest": blobs[0], "size": len(contents[0])}, blobs)


def test_an_archive_leaves_out_the_blobs_that_are_known(tmp_path: Path) -> None:
    packages = image(tmp_path, b"manifest-1", b"config-1", b"base", b"packages")
    whole = image(tmp_path, b"manifest-2", b"config-2", b"base", b"packages", b"source")
    archive = tmp_path / "images/thin.tar"
    write_archive(tmp_path, {"docker.io/dartes/worker:1": whole}, packages.blobs, archive)
    with tarfile.open(archive) as tar:
        assert len(tar.getnames()) == 2 + 3
        held = {tar.extractfile(name).read() for name in tar.getnames() if name.startswith("blobs/")}  # type: ignore[union-attr]
        index = json.loads(tar.extractfile("index.json").read())  # type: ignore[union-attr]
    assert held == {b"manifest-2", b"config-2", b"source"}
    (entry,) = index["manifests"]
    assert entry["digest"] == whole.digest
    assert entry["annotations"]["io.containerd.image.name"] == "docker.io/dartes/worker:1"
    assert [path.name for path in archive.parent.iterdir()] == ["thin.tar"]


def test_blobs_and_manifests_of_earlier_images_are_removed(tmp_path: Path) -> None:
    old = image(tmp_path, b"old manifest", b"base")
    new = image(tmp_path, b"new manifest", b"base")
    index = {"schemaVersion": 2, "manifests": [old.descriptor, new.descriptor]}
    (tmp_path / "index.json").write_text(json.dumps(index))
    remove_unused(tmp_path, new.blobs)
    assert [blob_path(tmp_path, digest).exists() for digest in old.blobs] == [False, True]
    assert all(blob_path(tmp_path, digest).exists() for digest in new.blobs)
    assert json.loads((tmp_path / "index.json").read_text())["manifests"] == [new.descriptor]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for folder in ("requirements", "core/dartes", "coordinator", "worker", "operator"):
        (root / folder).mkdir(parents=True)
    for name in ("Dockerfile", "pyproject.toml", "README.md", "LICENSE", VERSION_FILE):
        (root / name).write_bytes((ROOT / name).read_bytes())
    (root / "requirements/worker.lock").write_text("torch==2.13.0\n")
    return root


def test_a_fingerprint_follows_contents_and_nothing_else(project: Path) -> None:
    before = Context.read(project).fingerprint("base")
    source = project / VERSION_FILE
    os.utime(source, (1, 1))
    (project / "core/dartes/__pycache__").mkdir()
    (project / "core/dartes/__pycache__/x.pyc").write_bytes(b"x")
    (project / "core/dartes/noise.nbi").write_bytes(b"x")
    (project / "runs").mkdir()
    (project / "runs/notes").write_text("not in an image")
    assert Context.read(project).fingerprint("base") == before
    assert Context.read(project).fingerprint("another base") != before
    source.write_text(source.read_text() + "\n")
    assert Context.read(project).fingerprint("base") != before


def test_a_context_has_fixed_times_and_the_replaced_lock_file(project: Path, tmp_path: Path) -> None:
    target = tmp_path / "context"
    target.mkdir()
    (target / "left over").touch()
    Context.read(project).write(target, {"requirements/worker.lock": "torch==2.13.0+stub\n"})
    assert (target / "requirements/worker.lock").read_text() == "torch==2.13.0+stub\n"
    assert (target / VERSION_FILE).read_bytes() == (project / VERSION_FILE).read_bytes()
    assert not (target / "left over").exists()
    assert {path.stat().st_mtime for path in target.rglob("*")} == {TIME_OF_CHANGE}


def test_the_tag_is_the_version_of_the_project(project: Path) -> None:
    context = Context.read(project)
    assert context.version == __version__
    assert image_name("worker", context.version) == f"dartes/worker:{__version__}"
    (project / VERSION_FILE).write_text("")
    with pytest.raises(ValueError, match="__version__"):
        _ = Context.read(project).version


def test_the_context_is_what_the_dockerfile_copies_and_the_ignore_file_lets_through() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    copied = {
        source.removesuffix("/").partition("/")[0]
        for line in lines
        if line.startswith("COPY ") and "--from" not in line
        for source in line.split()[1:-1]
    }
    assert copied == {*FILES, *FOLDERS} - {"Dockerfile"}
    allowed = {
        line[1:].partition("/")[0]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    assert allowed == copied


def test_the_way_to_a_package_index_is_taken_over_and_the_hosts_folders_are_not() -> None:
    text = pip_configuration({"index-url": "https://index.example/simple", "find-links": "/srv/wheels"})
    assert "index-url = https://index.example/simple\n" in text
    assert "find-links = /mnt\n" in text
    assert "/srv/wheels" not in text
