"""A pod template goes under what dartes sets: it adds, and never replaces."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dartes_operator.resources.merge import merge_under

POD: dict[str, Any] = {
    "metadata": {"labels": {"a": "ours"}},
    "spec": {
        "restartPolicy": "Never",
        "tolerations": [{"key": "x"}],
        "containers": [
            {"name": "worker", "command": ["run"], "env": [{"name": "A", "value": "ours"}], "resources": {}}
        ],
        "volumes": [{"name": "run", "configMap": {}}],
    },
}


def test_what_the_template_adds_is_there_and_what_is_ours_stays() -> None:
    template = {
        "metadata": {"labels": {"a": "theirs", "b": "theirs"}, "annotations": {"c": "theirs"}},
        "spec": {
            "dnsPolicy": "Default",
            "restartPolicy": "Always",
            "tolerations": [{"key": "y"}, {"key": "x"}],
            "containers": [
                {"name": "worker", "env": [{"name": "A", "value": "theirs"}, {"name": "B", "value": "1"}]},
                {"name": "log", "image": "log:1"},
            ],
            "volumes": [{"name": "own", "emptyDir": {}}],
        },
    }
    found = merge_under(POD, template)
    assert found["metadata"] == {"labels": {"a": "ours", "b": "theirs"}, "annotations": {"c": "theirs"}}
    spec = found["spec"]
    assert (spec["restartPolicy"], spec["dnsPolicy"]) == ("Never", "Default")
    assert spec["tolerations"] == [{"key": "x"}, {"key": "y"}]
    assert [container["name"] for container in spec["containers"]] == ["worker", "log"]
    assert spec["containers"][0]["env"] == [{"name": "A", "value": "ours"}, {"name": "B", "value": "1"}]
    assert [volume["name"] for volume in spec["volumes"]] == ["run", "own"]


def test_every_container_that_a_template_adds_is_confined() -> None:
    template = {"spec": {"containers": [{"name": "log"}], "initContainers": [{"name": "fetch"}]}}
    spec = merge_under(POD, template)["spec"]
    for container in (spec["containers"][1], spec["initContainers"][0]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }


def test_an_empty_template_changes_nothing() -> None:
    assert merge_under(POD, {}) == POD
    assert merge_under(POD, {"metadata": None, "spec": None}) == POD


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["restartPolicy", "tolerations", "volumes", "x", "y"]), _VALUES))
def test_no_template_takes_anything_of_ours_away(spec: dict[str, Any]) -> None:
    found = merge_under(POD, {"spec": spec})["spec"]
    assert found["restartPolicy"] == "Never"
    assert found["containers"] == POD["spec"]["containers"]
    assert found["volumes"][0] == POD["spec"]["volumes"][0]
    assert found["tolerations"][0] == {"key": "x"}
