"""What measures the operator at scale: requests read from an audit log, parts of a status, pauses."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.cluster.audit import AuditLog, by_kind, read
from tests.cluster.scale import Statuses, changed_parts
from tests.cluster.stand_in_coordinators import Asked, address_of, with_address

USER = "system:serviceaccount:system:dartes"


def line(
    verb: str = "create", user: str = USER, stage: str = "ResponseComplete", **what: str
) -> dict[str, Any]:
    return {
        "stage": stage,
        "verb": verb,
        "user": {"username": user},
        "objectRef": {"resource": "pods", "namespace": "team", "name": "a", **what},
        "responseStatus": {"code": 201},
        "requestReceivedTimestamp": "2030-01-01T00:00:00.100000Z",
        "stageTimestamp": "2030-01-01T00:00:00.350000Z",
    }


def write(path: Path, *lines: dict[str, Any]) -> None:
    with path.open("a") as log:
        log.writelines(json.dumps(each) + "\n" for each in lines)


def test_a_request_knows_its_kind_and_how_long_it_took() -> None:
    found = read(json.dumps(line("patch", resource="dartesjobs", subresource="status")).encode(), USER)
    assert found is not None
    assert (found.kind, found.namespace, found.code) == ("patch dartesjobs/status", "team", 201)
    assert found.began == datetime(2030, 1, 1, 0, 0, 0, 100_000, UTC)
    assert (found.ended - found.began).total_seconds() == 0.25


def test_other_users_and_unfinished_requests_are_not_counted() -> None:
    assert read(json.dumps(line(user="another")).encode(), USER) is None
    assert read(json.dumps(line(stage="ResponseStarted")).encode(), USER) is None
    assert read(json.dumps(line()).encode()[:-5], USER) is None


def test_only_what_was_finished_since_is_read(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    write(path, line())
    log = AuditLog(path)
    position = log.end()
    assert log.since(position, USER) == []
    write(path, line("list"), line("get", user="another"), line("list"))
    assert by_kind(log.since(position, USER)) == {"list pods": 2}


def test_a_log_that_was_begun_anew_is_read_on(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    write(path, line("get"))
    log = AuditLog(path)
    position = log.end()
    write(path, line("list"))
    path.rename(tmp_path / "audit-2030-01-01T00-00-00.000.log")
    write(path, line("create"))
    assert by_kind(log.since(position, USER)) == {"list pods": 1, "create pods": 1}


def test_all_of_a_log_is_read_from_its_first_file_on_but_for_a_line_that_is_being_written(
    tmp_path: Path,
) -> None:
    path = tmp_path / "audit.log"
    write(path, line("get"), line("get", user="another"))
    path.rename(tmp_path / "audit-2030-01-01T00-00-00.000.log")
    write(path, line("list"))
    with path.open("a") as log:
        log.write(json.dumps(line("create"))[:-9])
    assert [entry["verb"] for entry in AuditLog(path).entries(USER)] == ["get", "list"]


def test_parts_of_a_status_that_changed_are_named() -> None:
    before = {"phase": "Running", "progress": {"iteration": 1}, "workers": {"ready": 1, "caughtUp": 0}}
    after = {"phase": "Running", "progress": {"iteration": 2}, "workers": {"ready": 1, "caughtUp": 1}}
    assert changed_parts(before, after) == {"progress", "workers.caughtUp"}
    assert changed_parts(before, {**after, "phase": "Failed"}) == {"progress", "workers.caughtUp", "phase"}
    assert changed_parts({}, {"phase": "Pending"}) == {"phase"}


def test_a_write_of_more_than_progress_is_told() -> None:
    def job(**status: Any) -> dict[str, Any]:
        return {"metadata": {"name": "sums"}, "status": status}

    statuses = Statuses()
    statuses.take_in(job(phase="Running", progress={"iteration": 1}))
    statuses.take_in(job(phase="Running", progress={"iteration": 1}))
    statuses.take_in(job(phase="Running", progress={"iteration": 2}))
    assert (statuses.writes["sums"], statuses.unlike_progress) == (1, [])
    statuses.take_in(job(phase="Failed", progress={"iteration": 2}))
    assert statuses.unlike_progress == ["sums: phase"]
    assert statuses.most_bytes == len('{"phase":"Running","progress":{"iteration":1}}')


def test_a_pause_at_either_end_counts_as_one_between_two_questions() -> None:
    asked = Asked(times={"a": [1.0, 3.0, 4.0], "b": [2.0, 3.5]})
    assert asked.longest_pause(0.0, 5.0) == 2.0
    assert asked.longest_pause(0.0, 9.0) == 5.5


def test_questions_that_are_open_at_the_same_time_are_counted() -> None:
    assert Asked().most_at_once == 0
    assert Asked(spans=[(0.0, 2.0), (1.0, 3.0), (2.0, 4.0), (2.5, 2.6)]).most_at_once == 3


def test_addresses_differ_and_are_put_on_the_coordinators_pod() -> None:
    assert len({address_of(number) for number in range(1000)}) == 1000
    spec = with_address({"coordinator": {"image": "x", "annotations": {"a": "b"}}}, 251)
    assert spec["coordinator"]["annotations"] == {"a": "b", "testcluster/pod-ip": "198.18.241.2"}
    assert spec["coordinator"]["image"] == "x"
