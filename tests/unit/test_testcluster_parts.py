"""Small parts of the test cluster: folders, options, versions, cgroups, mounts, certificates, processes."""

import datetime as dt
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from cryptography import x509

from testcluster.__main__ import parser
from testcluster.build import EXTRAS, NEEDED, go_problem, needed_go, newest_needed_go, version_key
from testcluster.cgroups import is_inside
from testcluster.commands import ClusterError, clean_environment, locked, wait_for, write
from testcluster.containerd import nameless_images
from testcluster.host import mounts_below
from testcluster.nodes import is_ready
from testcluster.oci import single_file_layer, write_archive
from testcluster.options import Options
from testcluster.paths import KUBERNETES_VERSION, Network, Paths
from testcluster.pki import Certificates
from testcluster.processes import start_time
from tests.cluster.held import CommandFailedError, OwnCluster
from tests.waiting import until


def test_the_cache_is_the_users_and_carries_the_version() -> None:
    paths = Paths.from_environment({"HOME": "/home/me"})
    assert paths.cache == Path("/home/me/.cache/dartes/testcluster") / KUBERNETES_VERSION
    assert paths.state == Path("/var/lib/dartes-testcluster")
    assert Paths.from_environment({"XDG_CACHE_HOME": "/c"}).cache.is_relative_to("/c/dartes")


def test_the_environment_moves_cache_and_state() -> None:
    paths = Paths.from_environment({"DARTES_TESTCLUSTER_CACHE": "/a", "DARTES_TESTCLUSTER_STATE": "/b"})
    assert (paths.cache, paths.state) == (Path("/a"), Path("/b"))


def test_two_states_have_two_cgroups() -> None:
    names = {Paths(Path("/cache"), Path(state)).cgroup for state in ("/a", "/b")}
    assert len(names) == 2


def test_the_environment_moves_addresses() -> None:
    network = Network.from_environment({"DARTES_TESTCLUSTER_PREFIX": "10.33"})
    assert network.gateway == "10.33.0.1"
    assert network.node_address(7) == "10.33.0.7"
    assert network.service_range == "10.189.0.0/16"


def test_the_fast_profile_shortens_timers_and_own_flags_win() -> None:
    own = "controller-manager:--node-monitor-grace-period=3s"
    options = Options(fast_node_loss=True, flags=(own,))
    assert options.extra("controller-manager")[-1] == "--node-monitor-grace-period=3s"
    assert "--default-unreachable-toleration-seconds=5" in options.extra("apiserver")
    assert Options().extra("apiserver") == []


@pytest.mark.parametrize("flag", ["apiserver", "etcd:--quota=1", "apiserver:v=2"])
def test_a_flag_of_no_component_is_refused(flag: str) -> None:
    with pytest.raises(ClusterError, match="COMPONENT"):
        Options(flags=(flag,))


@pytest.mark.parametrize("nodes", [0, 21])
def test_a_cluster_has_one_to_twenty_nodes_at_its_start(nodes: int) -> None:
    with pytest.raises(ClusterError, match="1 to 20"):
        Options(nodes=nodes)


def test_options_survive_being_written_down() -> None:
    options = Options(3, 2, audit=True, fast_node_loss=True, flags=("kubelet:--v=4",))
    assert Options.from_json(options.to_json()) == options


@pytest.mark.parametrize(
    ("found", "needed", "word"),
    [(None, "1.26.8", "no Go"), ("1.26.7", "1.26.8", "too old"), ("1.9", "1.26.0", "too old")],
)
def test_a_missing_or_old_go_is_told(found: str | None, needed: str, word: str) -> None:
    problem = go_problem(found, needed)
    assert problem is not None
    assert word in problem
    assert needed in problem


def test_a_newer_go_will_do() -> None:
    assert go_problem("1.26.10", "1.26.8") is None
    assert go_problem("1.27", "1.26.8") is None


def test_every_module_set_names_its_go_and_the_newest_is_asked_for() -> None:
    versions = [needed_go(each.go_mod) for each in (*NEEDED, *EXTRAS)]
    assert all(version_key(version) >= (1, 26) for version in versions)
    assert newest_needed_go() in versions
    with pytest.raises(ClusterError):
        needed_go("module nothing\n")


def test_kubectl_is_not_compiled() -> None:
    kubernetes = next(each for each in NEEDED if each.name == "kubernetes")
    assert "kubernetes/cmd/kubelet\n" in kubernetes.go_mod
    assert "cmd/kubectl" not in kubernetes.go_mod


@pytest.mark.parametrize(
    ("line", "inside"),
    [
        ("8:pids:/dartes-testcluster-1/daemons", True),
        ("0::/dartes-testcluster-1/node1/kubepods/pod1", True),
        ("8:pids:/dartes-testcluster-12/daemons", False),
        ("8:pids:/other/dartes-testcluster-1", False),
        ("8:pids:/", False),
    ],
)
def test_only_processes_of_the_very_cgroup_are_ours(line: str, inside: bool) -> None:
    assert is_inside(line, "dartes-testcluster-1") is inside


def test_mounts_below_a_folder_come_newest_first_and_unescaped() -> None:
    info = "\n".join(
        f"{number} 1 0:1 / {point} rw - tmpfs tmpfs rw"
        for number, point in enumerate(["/", "/state", "/state/a", "/statement/x", "/state/a/b\\040c"])
    )
    assert mounts_below(info, Path("/state")) == ["/state/a/b c", "/state/a"]


def test_an_image_that_lost_its_name_is_found_by_its_hash() -> None:
    rows = [
        ("REF", "TYPE", "DIGEST"),
        ("docker.io/dartes/worker:1", "application/x", "sha256:new"),
        ("sha256:config-of-new", "application/x", "sha256:new"),
        ("sha256:config-of-old", "application/x", "sha256:old"),
    ]
    listing = "\n".join(" ".join((*row, "1.9 GiB", "linux/amd64", "-")) for row in rows)
    assert nameless_images(listing) == ["sha256:config-of-old"]
    assert nameless_images("REF TYPE DIGEST\n") == []


def ready_node(status: str, heartbeat: str) -> dict[str, object]:
    """A Node object with one condition."""
    condition = {"type": "Ready", "status": status, "lastHeartbeatTime": heartbeat}
    return {"status": {"conditions": [condition]}}


@pytest.mark.parametrize(
    ("status", "heartbeat", "ready"),
    [
        ("True", "2030-01-01T00:00:02Z", True),
        ("True", "2030-01-01T00:00:01Z", False),
        ("False", "2030-01-01T00:00:02Z", False),
        ("Unknown", "2030-01-01T00:00:02Z", False),
    ],
)
def test_a_node_is_ready_by_a_heartbeat_after_its_start(status: str, heartbeat: str, ready: bool) -> None:
    since = dt.datetime(2030, 1, 1, 0, 0, 1, 500_000, tzinfo=dt.UTC)
    assert is_ready(ready_node(status, heartbeat), since) is ready


def test_a_dead_process_has_no_start_time_and_a_live_one_always_the_same() -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        began = start_time(child.pid)
        assert began
        assert start_time(child.pid) == began
        child.send_signal(signal.SIGKILL)
        # Until its parent has asked, a dead process keeps its pid.
        until(lambda: not start_time(child.pid), "a dead child counts as gone", 30.0)
    assert start_time(child.pid) != began
    assert start_time(os.getpid())


FIRST_THREAD_LEAVES = """
import ctypes, platform, sys, threading
threading.Thread(target=sys.stdin.readline).start()
print("ready", flush=True)
ctypes.CDLL(None).syscall({"aarch64": 93}.get(platform.machine(), 60), 0)  # exit: of this thread alone
"""


def test_a_process_of_which_the_first_thread_alone_has_ended_is_not_gone() -> None:
    words = [sys.executable, "-c", FIRST_THREAD_LEAVES]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        state = Path(f"/proc/{child.pid}/stat")
        until(lambda: ") Z " in state.read_text(), "the first thread has ended", 30.0)
        assert start_time(child.pid)
        child.kill()
        until(lambda: not start_time(child.pid), "the others too", 30.0)


def test_waiting_ends_with_the_last_reason() -> None:
    def probe() -> bool:
        raise ConnectionRefusedError("nobody listens")

    with pytest.raises(ClusterError, match=r"no answer within 0 s \(nobody listens\)"):
        wait_for("answer", probe, 0.0)


def test_a_lock_is_free_again_after_its_holder(tmp_path: Path) -> None:
    for _ in range(2):
        with locked(tmp_path / "lock", 0.0), pytest.raises(ClusterError, match="no lock"):
            locked(tmp_path / "lock", 0.0).__enter__()


def test_files_are_written_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "deep" / "file.json", {"a": 1})
    assert path.read_text() == '{\n "a": 1\n}'
    assert [file.name for file in path.parent.iterdir()] == ["file.json"]


def test_proxies_of_the_environment_reach_no_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    monkeypatch.setenv("no_proxy", "localhost")
    monkeypatch.setenv("KEPT", "1")
    environment = clean_environment()
    assert environment["KEPT"] == "1"
    assert not [name for name in environment if name.lower().endswith("_proxy")]


def test_certificates_name_users_groups_and_addresses_and_hold_no_others_keys(tmp_path: Path) -> None:
    paths, network = Paths(tmp_path / "cache", tmp_path / "state"), Network("10.188", "10.189", "br-dartes")
    certificates = Certificates(paths, network)
    certificates.make_authority()
    certificates.issue("node", "system:node:n", "system:nodes", names=["n"], ips=["10.188.0.2"])
    ca = x509.load_pem_x509_certificate((paths.pki / "ca.crt").read_bytes())
    node = x509.load_pem_x509_certificate((paths.pki / "node.crt").read_bytes())
    node.verify_directly_issued_by(ca)
    assert node.subject.rfc4514_string() == "CN=system:node:n,O=system:nodes"
    names = node.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["10.188.0.2"]
    assert (paths.pki / "node.key").stat().st_mode & 0o077 == 0


def test_an_image_archive_holds_one_layer_with_the_program(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"run me")
    write_archive(tmp_path / "image.tar", "localhost/x:1", single_file_layer(program, "x"), {"User": "1:1"})
    with tarfile.open(tmp_path / "image.tar") as archive:
        names = archive.getnames()
    assert {"index.json", "oci-layout"} <= set(names)
    assert len([name for name in names if name.startswith("blobs/")]) == 3, "layer, config and manifest"


@pytest.mark.parametrize(
    "words",
    [["up", "--nodes", "3", "--audit", "--fast-node-loss"], ["add-node", "n", "--gpus", "4"], ["down"]],
)
def test_the_command_line_knows_its_commands(words: list[str]) -> None:
    assert callable(parser().parse_args(words).run)


def test_a_command_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args([])
    assert "COMMAND" in capsys.readouterr().err


@pytest.mark.parametrize("pid", [None, 2**30])
def test_a_container_that_ends_just_before_its_signal_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pid: int | None
) -> None:
    cluster = OwnCluster(Paths(tmp_path / "cache", tmp_path / "state"))
    monkeypatch.setattr(cluster, "container_pid", lambda *_: pid)
    with pytest.raises(CommandFailedError, match=r"sums-worker-0: container worker doesn't run"):
        cluster.signal_container({"metadata": {"name": "sums-worker-0"}}, "worker")
