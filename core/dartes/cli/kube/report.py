"""`kubectl dartes report-bug`: one archive with what is needed to see what went wrong, and no secrets.

The order matters: all objects first, so that values which stand in them beside a telling name are known when
logs and metrics pass.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dartes.cli.kube.kubectl import Kubectl, Target
from dartes.cli.kube.redact import Redactor
from dartes.cli.kube.report_archive import writing
from dartes.cli.kube.report_parts import collect, talk

README = """\
A bug report of kubectl dartes report-bug.

versions.json         programs and cluster
jobs/JOB/             the job, its pods and other objects, events; status.txt as `kubectl dartes status`
jobs/JOB/logs/        of its pods; .previous: of the container's run before this one
jobs/JOB/metrics/     the pods' Prometheus pages
operator/NAMESPACE/   the same of the operator
namespace/, cluster/  quotas and limits; the definition of DartESJob, nodes, storage classes
left-out.txt          what could not be read, and why

Secrets were never read. Values of variables and fields whose names tell of secrets, tokens of known
shapes and passwords in addresses are replaced by "(removed)", in logs too. A secret that looks like any
other word, and stands beside no telling name, can't be found: look through the files before you hand
them on. They also hold names of your cluster, prompts of the job file, and whatever its pods logged.
"""


@dataclass(frozen=True)
class Asked:
    """What the user wants: where the archive goes, and where the operator is (None: look everywhere)."""

    output: Path
    operator_namespace: str | None = None


def report_bug(kubectl: Kubectl, name: str | None, asked: Asked, say: Callable[[str], None]) -> Iterator[str]:
    """Write the archive; gives the lines to print. Errors as `collect` and `writing`."""
    target = kubectl.target
    operator = Kubectl(Target(asked.operator_namespace, target.context, target.kubeconfig))
    redactor = Redactor()
    with writing(asked.output, redactor) as archive:
        archive.add("README.txt", README)
        say("asking for objects and events")
        found = collect(kubectl, name, operator)
        for document in found.documents:
            redactor.learn(document.content)
        for document in found.documents:
            archive.add(document.path, document.content)
        say(f"asking for logs and metrics of {len(found.talking)} pods")
        for document in talk(kubectl, found, archive.has_room):
            archive.add(document.path, document.content)
        left_out = archive.close("left-out.txt", found.left_out)
    yield f"{asked.output}: {asked.output.stat().st_size // 1024} KiB"
    if left_out:
        yield f"{left_out} things could not be read; left-out.txt in it says which, and why"
    yield "secrets that could be known as such are removed; look through it before you hand it on"
