"""Extras of the test cluster, as far as they need none: what leads to them, and what is not done twice."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from testcluster import build
from testcluster.cgroups import Cgroups
from testcluster.commands import ClusterError, write
from testcluster.extras import EXTRAS, kueue, metrics_server
from testcluster.machinery import Machinery
from testcluster.paths import Network, Paths
from testcluster.pki import Certificates
from testcluster.processes import Processes


class Started(Processes):
    """Notes what is started."""

    commands: list[list[str]]

    def start(self, name: str, command: Sequence[str | Path], **environment: str) -> None:
        assert not environment
        self.commands.append([name, *map(str, command)])


@pytest.fixture
def machinery(tmp_path: Path) -> Machinery:
    """A cluster of which nothing runs."""
    paths = Paths(tmp_path / "cache", tmp_path / "state")
    network = Network.from_environment({})
    cgroups = Cgroups(paths.cgroup)
    processes = Started(paths, cgroups)
    processes.commands = []
    certificates = Certificates(paths, network)
    certificates.make_authority()
    return Machinery(paths, network, cgroups, processes, certificates)


def compiled(machinery: Machinery, name: str, program: bytes = b"program") -> Path:
    """As after `build NAME`."""
    file = machinery.paths.bin / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(program)
    write(machinery.paths.cache / f"{name}.built", program.decode())
    return file


def test_every_extra_can_be_built_and_started() -> None:
    assert set(EXTRAS) == {each.name for each in build.EXTRAS}


@pytest.mark.parametrize("name", sorted(EXTRAS))
def test_an_extra_that_is_not_built_says_how_to_build_it(machinery: Machinery, name: str) -> None:
    with pytest.raises(ClusterError, match=f"python -m testcluster build {name}"):
        EXTRAS[name](machinery)


def test_the_api_server_finds_metrics_server_and_can_trust_it(machinery: Machinery) -> None:
    compiled(machinery, metrics_server.NAME)
    metrics_server.start_process(machinery)
    assert isinstance(machinery.processes, Started)
    (command,) = machinery.processes.commands
    service, endpoints, group = (body for _, body in metrics_server.objects(machinery))
    (port,) = endpoints["ports"]
    assert f"--secure-port={port['port']}" in command
    assert service["spec"]["ports"][0]["targetPort"] == port["port"]
    (endpoint,) = endpoints["endpoints"]
    assert f"--bind-address={endpoint['addresses'][0]}" in command
    assert endpoints["metadata"]["labels"]["kubernetes.io/service-name"] == service["metadata"]["name"]
    asked = group["spec"]["service"]
    certificate = x509.load_pem_x509_certificate(
        (machinery.paths.pki / "metrics-server-serving.crt").read_bytes()
    )
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert f"{asked['name']}.{asked['namespace']}.svc" in names.get_values_for_type(x509.DNSName)


class Node:
    """A node's containerd, as far as images are loaded into it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, machinery: Machinery) -> None:
        self.loads = 0
        self.images = ""
        home = machinery.paths.nodes / kueue.NODE
        write(home / "index", "1")
        monkeypatch.setattr(kueue, "ctl", lambda *_words: self.images)
        monkeypatch.setattr(kueue, "load", self.load)

    def load(self, _machinery: Machinery, _home: Path, archive: Path) -> None:
        """Load an archive."""
        assert archive.exists()
        self.loads += 1
        self.images = f"{kueue.IMAGE}:{kueue.TAG}\n"


def test_kueues_image_is_loaded_once_for_each_build(
    machinery: Machinery, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(monkeypatch, machinery)
    for program, loads in ((b"first", 1), (b"first", 1), (b"second", 2)):
        kueue.load_image(machinery, compiled(machinery, kueue.NAME, program))
        assert node.loads == loads
    node.images = ""
    kueue.load_image(machinery, machinery.paths.bin / kueue.NAME)
    assert node.loads == 3, "a node that was made anew has no image"


def test_kueues_chart_is_that_of_its_build(
    machinery: Machinery, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = tmp_path / "module" / "charts" / "kueue"
    asked: list[list[Any]] = []

    def run(command: list[Any], **_environment: str) -> str:
        asked.append(command)
        return json.dumps({"Dir": str(tmp_path / "module")})

    monkeypatch.setattr(kueue, "run", run)
    compiled(machinery, kueue.NAME, b"first")
    write(source / "Chart.yaml", "version: 1")
    assert (kueue.chart(machinery) / "Chart.yaml").read_text() == "version: 1"
    write(source / "Chart.yaml", "version: 2")
    assert (kueue.chart(machinery) / "Chart.yaml").read_text() == "version: 1"
    assert len(asked) == 1
    compiled(machinery, kueue.NAME, b"second")
    assert (kueue.chart(machinery) / "Chart.yaml").read_text() == "version: 2"


def test_kueue_leaves_namespaces_alone_that_are_not_given_to_it() -> None:
    configuration = json.loads(kueue.VALUES["managerConfig"]["controllerManagerConfigYaml"])
    assert configuration["managedJobsNamespaceSelector"] == {"matchLabels": {kueue.NAMESPACE_LABEL: "true"}}
    assert configuration["integrations"]["frameworks"] == ["pod"]
