"""What `helm test` runs in the cluster: is the operator ready, and does the API server know its jobs?

It knows the standard library and its own pod's token, nothing of the operator's code.
"""

import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

DEADLINE_SECONDS = 15.0
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def fetch(url: str, headers: dict[str, str], trust: ssl.SSLContext | None = None) -> bytes:
    """The body of a GET; OSError where there is no answer or not a good one."""
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=5, context=trust) as answer:
        body: bytes = answer.read()
        return body


def fetch_in_time(url: str, headers: dict[str, str], trust: ssl.SSLContext | None = None) -> bytes:
    """As `fetch`, asking again for a while: a new Service or definition takes a moment to be known."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        try:
            return fetch(url, headers, trust)
        except OSError as error:
            if time.monotonic() > deadline:
                words = error.read().decode() if isinstance(error, urllib.error.HTTPError) else ""
                sys.exit(f"{url}: {error} {words}")
            time.sleep(0.5)


def main() -> None:
    """Exit 0 when all is well, else say what is not."""
    if operator := os.environ["OPERATOR_URL"]:
        fetch_in_time(f"{operator}/readyz", {})
        sys.stdout.write(f"{operator}/readyz: the operator is ready\n")

    server = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}"
    trust = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    bearer = {"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}"}
    watched = os.environ["WATCH_NAMESPACES"]
    for namespace in watched.split(","):
        scope = f"namespaces/{namespace}/" if namespace else ""
        path = f"/apis/dartes.dev/v1alpha1/{scope}dartesjobs?limit=1"
        answer = json.loads(fetch_in_time(server + path, bearer, trust))
        if answer["kind"] != "DartESJobList":
            sys.exit(f"{path}: expected a DartESJobList, got {answer['kind']}")
        sys.stdout.write(f"{path}: the API server knows jobs, and the operator may list them\n")


if __name__ == "__main__":
    main()
