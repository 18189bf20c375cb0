"""docs/security.md: what the page says that the operator may not do, the API server says too.

The rights are given to an account that nothing uses: no operator runs with them.
"""

import re
import shlex
import subprocess
from collections.abc import Iterator

import pytest

from .held import ROOT, HeldCluster
from .release import CHART

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
CLUSTER_WIDE, NAMESPACED = (
    block.strip().splitlines()
    for block in re.findall(r"^```\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    if "auth can-i" in block
)
"""The page's questions, for an operator of the whole cluster and for one of some namespaces."""


@pytest.fixture
def account(cluster: HeldCluster, namespace: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The namespace of an account with the chart's rights, with the options that the test asks for."""
    shown = [f"--show-only=templates/{name}.yaml" for name in ("serviceaccount", "rbac")]
    options = [option.replace("NAMESPACE", namespace) for option in request.param]
    rendered = cluster.helm("template", "dartes", str(CHART), "--namespace", namespace, *shown, *options)
    cluster.kubectl("apply", "-f", "-", input=rendered)
    yield namespace
    cluster.kubectl("delete", "-f", "-", "--ignore-not-found", input=rendered)


def answers(cluster: HeldCluster, questions: list[str], namespace: str) -> list[str]:
    """What `kubectl auth can-i` says to each question, asked about the account in this namespace."""
    said = []
    for question in questions:
        first, *words = shlex.split(question.replace("dartes-system", namespace))
        assert first == "kubectl"
        # The exit status is 1 where the answer is no.
        done = subprocess.run([*cluster.kubectl_command, *words], capture_output=True, text=True, timeout=30)
        said.append(done.stdout.strip() or done.stderr)
    return said


@pytest.mark.parametrize("account", [()], indirect=True)
def test_an_operator_of_the_whole_cluster_may_not_what_the_page_says_it_may_not(
    cluster: HeldCluster, account: str
) -> None:
    assert len(CLUSTER_WIDE) == 3
    assert answers(cluster, CLUSTER_WIDE, account) == ["no", "no", "no"]
    may = f"kubectl auth can-i get secrets --as=system:serviceaccount:{account}:dartes"
    assert answers(cluster, [may], account) == ["yes"], "the account has the chart's rights at all"


@pytest.mark.parametrize("account", [("--set=watch.namespaces={NAMESPACE}",)], indirect=True)
def test_an_operator_of_some_namespaces_has_no_rights_elsewhere(cluster: HeldCluster, account: str) -> None:
    assert answers(cluster, NAMESPACED, account) == ["no"]
    may = f"kubectl auth can-i list pods -n {account} --as=system:serviceaccount:{account}:dartes"
    assert answers(cluster, [may], account) == ["yes"]
