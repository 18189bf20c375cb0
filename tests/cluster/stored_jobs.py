"""Jobs that only the API server looks at: tried without being stored, or stored with hands off.

It knows how the server says no; what it should say no to is for the tests.
"""

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from dartes.spec.crd import definition
from dartes.spec.crd.document import CRD_NAME

from .jobs import until

GROUP, VERSION, PLURAL = "dartes.dev", "v1alpha1", "dartesjobs"
Object = dict[str, Any]

HANDS_OFF = {"dartes.dev/reconcile": "disabled"}
MERGE = "application/merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

SMALL: Object = {
    "model": {"source": "builtin://addition"},
    "dataset": {"source": "builtin://addition"},
    "task": {"kind": "addition"},
    "es": {"iterations": 20},
}
"""The least that a job needs."""


def with_fields(spec: Mapping[str, Any], changes: Mapping[str, Any]) -> Object:
    """A spec with fields set by dotted path; None takes a field away."""
    changed: Object = deepcopy(dict(spec))
    for path, value in changes.items():
        place = changed
        *parents, name = path.split(".")
        for parent in parents:
            place = place.setdefault(parent, {})
        if value is None:
            place.pop(name, None)
        else:
            place[name] = deepcopy(value)
    return changed


def nested(path: str, value: Any) -> Object:
    """A merge patch of one field by dotted path; None takes it away."""
    *parents, name = path.split(".")
    patch: Object = {name: value}
    for parent in reversed(parents):
        patch = {parent: patch}
    return patch


def merged(patches: Iterable[Object]) -> Object:
    """One merge patch of several; where two name a field, the later one counts."""
    whole: Object = {}
    for patch in patches:
        for key, value in patch.items():
            both = isinstance(value, dict) and isinstance(whole.get(key), dict)
            whole[key] = merged([whole[key], value]) if both else value
    return whole


def value_at(spec: Mapping[str, Any], path: str) -> Any:
    """The value of a field by dotted path."""
    found: Any = spec
    for name in path.split("."):
        found = found[name]
    return found


def apply_definition(api: client.ApiClient) -> None:
    """Give the cluster the definition as the models have it now, and wait until it is served."""
    extensions = client.ApiextensionsV1Api(api)
    body = definition()
    try:
        extensions.create_custom_resource_definition(body)
    except ApiException as error:
        if error.status != 409:
            raise
        extensions.patch_custom_resource_definition(CRD_NAME, {"spec": body["spec"]})

    def established() -> bool:
        answer = extensions.read_custom_resource_definition(CRD_NAME, _preload_content=False)
        conditions = json.loads(answer.data).get("status", {}).get("conditions") or ()
        return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

    def served() -> bool:
        # The paths come a moment after the condition.
        try:
            client.CustomObjectsApi(api).list_cluster_custom_object(GROUP, VERSION, PLURAL, limit=1)
        except ApiException as error:
            if error.status != 404:
                raise
            return False
        return True

    until(lambda: established() and served(), f"{CRD_NAME} is served", 30)


class Jobs:
    """The jobs of one namespace."""

    def __init__(self, api: client.ApiClient, namespace: str) -> None:
        self._api = api
        self._custom = client.CustomObjectsApi(api)
        self._where = (GROUP, VERSION, namespace, PLURAL)

    def create(
        self, spec: Mapping[str, Any], name: str = "tried", *, dry: bool = True, strict: bool = False
    ) -> Object:
        """Create a job, or only ask what would come of it; returns the object with its defaults."""
        body = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "DartESJob",
            "metadata": {"name": name, "annotations": HANDS_OFF},
            "spec": dict(spec),
        }
        options = {"dry_run": "All"} if dry else {}
        if strict:
            options["field_validation"] = "Strict"
        made: Object = self._custom.create_namespaced_custom_object(*self._where, body, **options)
        return made

    def patch(self, name: str, spec: Mapping[str, Any], *, dry: bool = True) -> Object:
        """Merge into the spec of a job."""
        options = {"dry_run": "All"} if dry else {}
        made: Object = self._custom.patch_namespaced_custom_object(
            *self._where, name, {"spec": dict(spec)}, _content_type=MERGE, **options
        )
        return made

    def patch_status(self, name: str, status: Mapping[str, Any]) -> Object:
        """Merge into the status of a job."""
        made: Object = self._custom.patch_namespaced_custom_object_status(
            *self._where, name, {"status": dict(status)}, _content_type=MERGE
        )
        return made

    def scale(self, name: str, replicas: int) -> Object:
        """Scale as `kubectl scale` and autoscalers do; returns the Scale."""
        made: Object = self._custom.patch_namespaced_custom_object_scale(
            *self._where, name, {"spec": {"replicas": replicas}}, _content_type=MERGE
        )
        return made

    def get(self, name: str) -> Object:
        """A job as it is stored."""
        found: Object = self._custom.get_namespaced_custom_object(*self._where, name)
        return found

    def table(self, name: str) -> Object:
        """What `kubectl get` shows of a job: column -> (cell, priority)."""
        group, version, namespace, plural = self._where
        request = self._api.param_serialize(
            method="GET",
            resource_path=f"/apis/{group}/{version}/namespaces/{namespace}/{plural}/{name}",
            header_params={"Accept": TABLE},
            auth_settings=["BearerToken"],
        )
        answer = self._api.call_api(*request)
        found = json.loads(answer.read())
        columns = found["columnDefinitions"]
        return {
            column["name"]: (cell, column["priority"])
            for column, cell in zip(columns, found["rows"][0]["cells"], strict=True)
        }


def refusals(error: ApiException) -> dict[str, list[str]]:
    """What the server had against an object: field -> its words."""
    assert error.status == 422, error.body
    found: dict[str, list[str]] = {}
    for cause in json.loads(error.body)["details"]["causes"]:
        found.setdefault(cause["field"], []).append(cause["message"])
    return found
