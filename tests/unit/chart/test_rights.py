"""Whom the chart gives which rights: verb by verb, in the namespaces asked for and nowhere else."""

from .rendering import refusal, render

WATCHED = {"create", "get", "list", "watch"}
READ_BY_NAME = {"create", "get", "patch"}
OPERATOR = {
    ("dartes.dev", "dartesjobs"): {"get", "list", "watch", "delete"},
    ("dartes.dev", "dartesjobs/status"): {"patch"},
    ("dartes.dev", "dartesjobs/finalizers"): {"update"},
    ("", "pods"): WATCHED | {"delete"},
    ("", "services"): WATCHED,
    ("", "configmaps"): WATCHED | {"delete"},
    ("", "persistentvolumeclaims"): WATCHED | {"patch", "delete"},
    ("", "secrets"): READ_BY_NAME,
    ("networking.k8s.io", "networkpolicies"): READ_BY_NAME | {"delete"},
    ("policy", "poddisruptionbudgets"): READ_BY_NAME | {"delete"},
    ("", "events"): {"create", "patch"},
}


def test_the_operator_has_these_rights_and_no_others() -> None:
    assert render().rules == OPERATOR
    assert render({"watch.namespaces": ["team-a"]}).rules == OPERATOR


def test_secrets_are_neither_listed_nor_watched() -> None:
    assert not render().rules["", "secrets"] & {"list", "watch", "*"}


def test_no_role_has_a_wildcard() -> None:
    release = render({"watch.namespaces": ["team-a"]})
    for role in release.all("Role") + release.all("ClusterRole") + render().all("ClusterRole"):
        for rule in role["rules"]:
            assert "*" not in rule["apiGroups"] + rule["resources"] + rule["verbs"], role["metadata"]["name"]


def test_without_namespaces_the_rights_are_the_clusters() -> None:
    release = render()
    assert release.all("Role") == release.all("RoleBinding") == []
    binding = release.one("ClusterRoleBinding")
    assert binding["roleRef"]["name"] in {role["metadata"]["name"] for role in release.all("ClusterRole")}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "dartes", "namespace": "dartes-system"}]


def test_with_namespaces_each_has_its_role_and_the_cluster_none() -> None:
    release = render({"watch.namespaces": ["team-a", "team-b"]})
    assert release.all("ClusterRoleBinding") == []
    assert all("aggregate" in str(role["metadata"]["labels"]) for role in release.all("ClusterRole"))
    for kind in ("Role", "RoleBinding"):
        assert [each["metadata"]["namespace"] for each in release.all(kind)] == ["team-a", "team-b"]
    for binding in release.all("RoleBinding"):
        assert binding["roleRef"]["kind"] == "Role"
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": "dartes", "namespace": "dartes-system"}
        ]


def test_cluster_rights_can_go_with_listed_namespaces() -> None:
    release = render({"watch.namespaces": ["team-a"], "rbac.scope": "Cluster"})
    assert release.all("Role") == []
    assert release.one("ClusterRoleBinding")
    assert release.environment["DARTES_WATCH_NAMESPACES"] == "team-a"


def test_namespaced_rights_without_namespaces_are_refused() -> None:
    assert "watch.namespaces is empty" in refusal({"rbac.scope": "Namespaced"})


def test_no_rights_are_made_where_they_are_not_wanted() -> None:
    release = render({"rbac": {"create": False, "scope": "Auto", "aggregate": False}})
    for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"):
        assert release.all(kind) == []


def test_an_existing_service_account_is_used_and_not_made() -> None:
    release = render({"serviceAccount": {"create": False, "name": "theirs"}})
    assert release.all("ServiceAccount") == []
    assert release.one("Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == "theirs"
    assert release.one("ClusterRoleBinding")["subjects"][0]["name"] == "theirs"


def test_users_with_a_built_in_role_get_jobs_with_it() -> None:
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    verbs: dict[str, set[str]] = {"view": set(), "edit": set(), "admin": set()}
    for role in render().all("ClusterRole"):
        for level in verbs:
            if role["metadata"]["labels"].get(prefix + level) == "true":
                for rule in role["rules"]:
                    if "dartesjobs" in rule["resources"]:
                        verbs[level].update(rule["verbs"])
    reading = {"get", "list", "watch"}
    writing = {"create", "update", "patch", "delete"}
    assert verbs["view"] == reading
    assert verbs["edit"] == reading | writing
    assert verbs["admin"] == reading | writing | {"deletecollection"}


def test_two_releases_of_one_name_share_no_name_in_the_cluster() -> None:
    """Their namespaces differ, and cluster-scoped names carry the namespace."""
    for kind in ("ClusterRole", "ClusterRoleBinding"):
        for each in render().all(kind):
            assert each["metadata"]["name"].startswith("dartes-system-")
