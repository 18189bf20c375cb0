"""Paths in the API: where an object is, and which names lead to none."""

import pytest

from dartes_operator.kinds import JOB, path


def test_a_path_names_collection_object_and_subresource() -> None:
    assert path("Pod", None) == "/api/v1/pods"
    assert path("Pod", "team", "sums-worker-0") == "/api/v1/namespaces/team/pods/sums-worker-0"
    assert path(JOB, "team", "a.b", "status") == (
        "/apis/dartes.dev/v1alpha1/namespaces/team/dartesjobs/a.b/status"
    )


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "a?b", "a%2fb", "A", "-a", "a-", "a\n", "\u00e9", "a" * 254]
)
def test_what_no_object_can_be_called_gets_no_path(name: str) -> None:
    with pytest.raises(ValueError, match="PersistentVolumeClaim: the name .* is not one of an object"):
        path("PersistentVolumeClaim", "team", name)
    with pytest.raises(ValueError, match="the namespace"):
        path("PersistentVolumeClaim", name, "mine")
