"""What an upgrade would break is found before the release: each kind of break of wire and definition."""

import copy
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from scripts.check_compatibility import (
    ACCEPTED,
    FOLDER,
    ROOT,
    VERSIONS,
    Accepted,
    check,
    definition_breaks,
    judge,
    protocol_breaks,
    record,
    volume_breaks,
)
from scripts.crd_changes import breaks

Node = dict[str, Any]
CONTROL = "proto/dartes/v1/control.proto"
POPULATION = "proto/dartes/v1/population.proto"

SCHEMA: Node = {
    "type": "object",
    "required": ["model"],
    "properties": {
        "model": {"type": "string", "maxLength": 100, "pattern": "^[a-z]+$"},
        "kind": {"type": "string", "enum": ["A", "B"], "default": "A"},
        "size": {"type": "integer", "minimum": 1, "maximum": 9, "format": "int32"},
        "list": {
            "type": "array",
            "maxItems": 4,
            "items": {"type": "object", "properties": {"name": {"type": "string"}}},
        },
        "map": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 3},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "either": {"x-kubernetes-int-or-string": True},
        "keyed": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object"},
        },
    },
    "x-kubernetes-validations": [{"rule": "self.size != 7", "message": "not seven"}],
}


def definition(schema: Node) -> Node:
    """A definition with this schema of `spec`."""
    return {
        "spec": {
            "group": "example.dev",
            "scope": "Namespaced",
            "names": {
                "kind": "Thing",
                "listKind": "ThingList",
                "plural": "things",
                "singular": "thing",
                "shortNames": ["th"],
                "categories": ["all"],
            },
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size"}},
                    "additionalPrinterColumns": [
                        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}
                    ],
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "properties": {"spec": copy.deepcopy(schema)}}
                    },
                }
            ],
        }
    }


OLD = definition(SCHEMA)


def spec_of(definition: Node) -> Node:
    """The schema of `spec`."""
    found: Node = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found


def changed(path: str, **values: Any) -> Node:
    """The definition with keywords of one node set; None takes one away.

    The path goes down from the definition's `spec`; one that begins with `.` from the properties of the
    object's own. A number is a place in a list.
    """
    new = copy.deepcopy(OLD)
    node: Any = spec_of(new)["properties"] if path.startswith(".") else new["spec"]
    for word in filter(None, path.split(".")):
        node = node[int(word) if word.isdigit() else word]
    for name, value in values.items():
        if value is None:
            del node[name]
        else:
            node[name] = value
    return new


UNKNOWN = "x-kubernetes-preserve-unknown-fields"
EITHER = "x-kubernetes-int-or-string"
KEYS = "x-kubernetes-list-map-keys"


@pytest.mark.parametrize(
    ("path", "values", "said"),
    [
        (".", {"size": None}, "spec.size is gone"),
        (".list.items.properties", {"name": None}, "spec.list[].name is gone"),
        (".size", {"type": "string"}, "spec.size: type is 'string', and was 'integer'"),
        (".size", {"minimum": 2}, "spec.size: minimum is 2, and was 1"),
        (".size", {"maximum": 8}, "spec.size: maximum is 8, and was 9"),
        (".size", {"exclusiveMinimum": True}, "spec.size: exclusiveMinimum is True, and was not set"),
        (".size", {"multipleOf": 2}, "spec.size: multipleOf is 2, and was not set"),
        (".size", {"format": "int64"}, "spec.size: format is 'int64', and was 'int32'"),
        (".model", {"maxLength": 99}, "spec.model: maxLength is 99, and was 100"),
        (".model", {"minLength": 2}, "spec.model: minLength is 2, and was not set"),
        (".model", {"pattern": "^[a-z]$"}, "spec.model: pattern is '^[a-z]$', and was '^[a-z]+$'"),
        (".list", {"maxItems": 3}, "spec.list: maxItems is 3, and was 4"),
        (".list", {"minItems": 1}, "spec.list: minItems is 1, and was not set"),
        (".map", {"maxProperties": 2}, "spec.map: maxProperties is 2, and was 3"),
        (".map", {"additionalProperties": None}, "spec.map: additionalProperties is gone"),
        (".map.additionalProperties", {"maxLength": 5}, "spec.map{}: maxLength is 5, and was not set"),
        (".kind", {"enum": ["A"]}, "spec.kind: 'B' is no longer allowed"),
        (".model", {"enum": ["x"]}, "spec.model: only x are allowed now"),
        (".kind", {"default": "B"}, "spec.kind: the default is 'B', and was 'A'"),
        (".kind", {"default": None}, "spec.kind: the default 'A' is gone"),
        (".size", {"default": 3}, "spec.size: the default is 3, and was 'none'"),
        (".free", {UNKNOWN: None}, f"spec.free: {UNKNOWN} is gone"),
        (".either", {EITHER: None}, f"spec.either: {EITHER} is gone"),
        (".keyed", {KEYS: ["id"]}, f"spec.keyed: {KEYS} is ['id'], and was ['name']"),
        ("", {"group": "other.dev"}, "group changed from example.dev to other.dev"),
        ("", {"scope": "Cluster"}, "scope changed from Namespaced to Cluster"),
        ("names", {"plural": "thingies"}, "names.plural changed from things to thingies"),
        ("names", {"shortNames": []}, "names.shortNames: th is gone"),
        ("versions.0", {"name": "v2"}, "version v1 is gone"),
        ("versions.0", {"served": False}, "version v1 is no longer served"),
        (
            "versions.0",
            {"storage": False},
            "version v1 no longer stores objects: those that are stored need a migration",
        ),
        ("versions.0", {"additionalPrinterColumns": []}, "column Size is gone"),
        (
            "versions.0.additionalPrinterColumns.0",
            {"jsonPath": ".spec.kind"},
            "column Size shows something else",
        ),
        ("versions.0.subresources", {"scale": None}, "subresource scale is gone"),
        (
            "versions.0.subresources",
            {"scale": {}},
            "subresource scale changed from {'specReplicasPath': '.spec.size'} to {}",
        ),
    ],
)
def test_each_kind_of_break_in_a_definition_is_named(path: str, values: Node, said: str) -> None:
    (found,) = breaks(OLD, changed(path, **values))
    assert found.startswith(said)


def test_a_field_that_becomes_required_is_a_break_unless_it_has_a_default() -> None:
    new = copy.deepcopy(OLD)
    spec_of(new)["required"] = ["model", "size", "kind"]
    assert breaks(OLD, new) == ["spec: size is required now"]


def test_a_new_rule_is_a_break_unless_it_speaks_of_a_new_field() -> None:
    new = copy.deepcopy(OLD)
    spec_of(new)["properties"]["fresh"] = {"type": "integer"}
    spec_of(new)["x-kubernetes-validations"] += [
        {"rule": "self.fresh > 1", "message": "m", "fieldPath": ".fresh"},
        {"rule": "self.size > 1", "message": "m", "fieldPath": ".size"},
        {"rule": "self.model != 'x'", "message": "m"},
    ]
    assert breaks(OLD, new) == [
        "spec: a new rule on size may refuse what was allowed: self.size > 1",
        "spec: a new rule may refuse what was allowed: self.model != 'x'",
    ]


def test_what_lets_more_through_is_no_break() -> None:
    new = copy.deepcopy(OLD)
    new["spec"]["versions"].append({**OLD["spec"]["versions"][0], "name": "v2", "storage": False})
    new["spec"]["versions"][0]["additionalPrinterColumns"].insert(
        0, {"name": "Kind", "type": "string", "jsonPath": ".spec.kind"}
    )
    spec = spec_of(new)
    spec.update({"description": "other words", "required": [], "x-kubernetes-validations": []})
    fields = spec["properties"]
    del fields["model"]["pattern"], fields["size"]["format"], fields["list"]["maxItems"]
    fields["model"]["maxLength"] = 200
    fields["kind"]["enum"] = ["A", "B", "C"]
    fields["size"].update({"minimum": 0, "maximum": 10})
    fields["fresh"] = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
    assert breaks(OLD, new) == []


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The parts of this project that the check reads, as of a release that was made just now."""
    for name in ("buf.yaml", *(path for path, _ in VERSIONS.values())):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("proto", "crds"):
        shutil.copytree(ROOT / name, tmp_path / name)
    record(tmp_path)
    return tmp_path


def rewrite(project: Path, name: str, old: str, new: str) -> None:
    """Change a text that stands once in a file."""
    text = (project / name).read_text()
    assert text.count(old) == 1, f"{name} holds {old!r} {text.count(old)} times"
    (project / name).write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        (CONTROL, "  uint32 stages = 21;\n", "", 'Previously present field "21" with name "stages"'),
        (CONTROL, "uint32 stages = 21;", "string stages = 21;", 'Field "21" with name "stages"'),
        (CONTROL, "uint32 stages = 21;", "uint32 stages = 25;", "stages"),
        (CONTROL, "uint32 stages = 21;", "uint32 levels = 21;", "levels"),
        (CONTROL, "repeated string notes = 22;", "string notes = 22;", "notes"),
        (CONTROL, "  PHASE_PAUSED = 5;\n", "", 'Previously present enum value "5"'),
        (CONTROL, "rpc Status(", "rpc Where(", 'Previously present RPC "Status"'),
        (CONTROL, "package dartes.v1;", "package dartes.v2;", "package"),
        (POPULATION, "  string placement = 11;\n", "", 'Previously present field "11" with name "placement"'),
        (POPULATION, "fixed64 seed = 6;", "uint64 seed = 6;", 'Field "6" with name "seed"'),
    ],
)
def test_each_kind_of_break_in_the_wire_is_named(
    project: Path, file: str, old: str, new: str, said: str
) -> None:
    rewrite(project, file, old, new)
    found = protocol_breaks(project)
    assert any(said in line and line.startswith(file) for line in found), found


def test_a_new_field_of_the_wire_is_no_break(project: Path) -> None:
    rewrite(project, CONTROL, "uint32 stages = 21;", "uint32 stages = 21;\n  uint32 fresh = 30;")
    assert protocol_breaks(project) == []


def test_a_raised_protocol_version_excuses_what_workers_hear_and_never_what_the_operator_hears(
    project: Path,
) -> None:
    rewrite(project, POPULATION, "  string placement = 11;\n", "")
    assert protocol_breaks(project)
    number = (project / "core/dartes/rpc/__init__.py").read_text()
    (project / "core/dartes/rpc/__init__.py").write_text(
        number.replace("PROTOCOL_VERSION = ", "PROTOCOL_VERSION = 9")
    )
    assert protocol_breaks(project) == []
    rewrite(project, CONTROL, "  uint32 stages = 21;\n", "")
    assert protocol_breaks(project)


@pytest.mark.parametrize("name", ["stateVersion", "journalVersion"])
def test_another_version_of_what_stands_on_volumes_is_a_break(project: Path, name: str) -> None:
    assert volume_breaks(project) == []
    path, _ = VERSIONS[name]
    text = (project / path).read_text()
    (project / path).write_text(
        re.sub(r"^((?:SCHEMA|FORMAT)_VERSION.* = )\d+$", r"\g<1>99", text, flags=re.M)
    )
    (found,) = volume_breaks(project)
    assert found.startswith(f"volumes: {name} is 99")


def test_a_release_that_was_just_recorded_is_kept_and_an_accepted_break_needs_its_reason(
    project: Path,
) -> None:
    file = project / FOLDER / ACCEPTED
    file.write_text(json.dumps([{"break": "what was"}]))
    assert check(project) == [
        f"{FOLDER}/{ACCEPTED}: this is no break, remove it: what was",
        f"{FOLDER}/{ACCEPTED}: say why: what was",
    ]


def test_a_break_of_the_definition_is_found_in_the_file(project: Path) -> None:
    rewrite(project, "crds/dartesjobs.dartes.dev.yaml", "shortNames: [dej]", "shortNames: [dj]")
    assert definition_breaks(project) == ["DartESJob: names.shortNames: dej is gone"]


def test_breaks_and_acceptances_are_matched_one_by_one() -> None:
    assert judge(["a", "b"], [Accepted("b", "meant")]) == ["a"]
    assert judge(["a", "b"], [Accepted("b", "meant"), Accepted("c", "meant")]) == [
        "a",
        f"{FOLDER}/{ACCEPTED}: this is no break, remove it: c",
    ]


def test_the_recorded_definition_is_one_that_the_check_reads_whole() -> None:
    recorded = YAML(typ="safe").load((ROOT / FOLDER / "dartesjobs.dartes.dev.yaml").read_text())
    assert breaks(recorded, recorded) == []
    emptied = copy.deepcopy(recorded)
    spec_of(emptied)["properties"] = {}
    assert len(breaks(recorded, emptied)) == len(spec_of(recorded)["properties"])
