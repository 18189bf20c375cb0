"""The archive of a bug report is bounded, passes the redactor, and is there whole or not at all."""

import json
import tarfile
from pathlib import Path

import pytest

from dartes.cli.kube import report_archive
from dartes.cli.kube.redact import REMOVED, Redactor
from dartes.cli.kube.report_archive import CUT, writing
from dartes.errors import ConfigurationError

SECRET = "hf_" + "aB3" * 11


def files_of(archive: Path) -> dict[str, str]:
    """Every file of an archive by its path in the report's folder."""
    with tarfile.open(archive) as tar:
        read = {member.name: tar.extractfile(member) for member in tar}
        return {
            name.removeprefix("dartes-report/"): file.read().decode() for name, file in read.items() if file
        }


def test_texts_and_documents_pass_the_redactor(tmp_path: Path) -> None:
    with writing(tmp_path / "out", Redactor()) as archive:
        archive.add("a.log", f"token {SECRET}\n")
        archive.add("b.json", {"message": [SECRET], "answer": 42})
        assert archive.close("left-out.txt", [f"a log: {SECRET}"]) == 1
    files = files_of(tmp_path / "out")
    assert files["a.log"] == f"token {REMOVED}\n"
    assert json.loads(files["b.json"]) == {"message": [REMOVED], "answer": 42}
    assert files["left-out.txt"] == f"a log: {REMOVED}\n"


def test_a_long_text_keeps_its_end_from_a_whole_line_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_archive, "TEXT_BYTES", 40)
    with writing(tmp_path / "out", Redactor()) as archive:
        archive.add("a.log", "".join(f"line {i}\n" for i in range(100)))
    text = files_of(tmp_path / "out")["a.log"]
    assert text.startswith(f"{CUT}line 9")
    assert text.endswith("line 99\n")
    assert len(text) <= 40 + len(CUT)


def test_a_secret_at_the_place_where_a_text_is_cut_is_removed_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_archive, "TEXT_BYTES", 20)
    with writing(tmp_path / "out", Redactor()) as archive:
        archive.add("a.log", f"x\n{SECRET}")
    assert SECRET[-12:] not in files_of(tmp_path / "out")["a.log"]


def test_what_is_too_large_is_left_out_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_archive, "DOCUMENT_BYTES", 100)
    monkeypatch.setattr(report_archive, "TOTAL_BYTES", 60)
    with writing(tmp_path / "out", Redactor()) as archive:
        archive.add("large.json", ["x" * 200])
        archive.add("first.log", "x" * 50)
        archive.add("second.log", "x" * 50)
        assert archive.close("left-out.txt", []) == 2, "for this one there is always room"
    files = files_of(tmp_path / "out")
    assert set(files) == {"first.log", "left-out.txt"}
    assert files["left-out.txt"] == "large.json: too large\nsecond.log: too large\n"


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name, words in (("out", "exists already"), ("link", "exists already"), ("no/out", "is no folder")):
        with pytest.raises(ConfigurationError, match=words), writing(tmp_path / name, Redactor()):
            pass
    assert (tmp_path / "out").read_text() == "mine"


def test_an_error_on_the_way_leaves_nothing_behind(tmp_path: Path) -> None:
    def interrupted() -> None:
        with writing(tmp_path / "out", Redactor()) as archive:
            archive.add("a.log", "x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []
