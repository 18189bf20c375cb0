"""The command line, `python -m testcluster COMMAND`: parses, calls, and says in one line what went wrong.

Holds no step of its own; each command is a function of the module that it names.
"""

import argparse
import datetime as dt
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import build, containerd, lifecycle, nodes, packages, volumes
from .commands import ClusterError, locked, say
from .extras import EXTRAS
from .machinery import Machinery
from .options import Options

Command = Callable[[Machinery, argparse.Namespace], None]


def main(words: Sequence[str] | None = None) -> int:
    """Do one command; exit status 1 where it could not be done."""
    arguments = parser().parse_args(words)
    command: Command = arguments.run
    try:
        command(Machinery.from_environment(), arguments)
    except ClusterError as error:
        sys.stderr.write(f"testcluster: {error}\n")
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    """All commands and their arguments."""
    top = argparse.ArgumentParser(
        prog="python -m testcluster", description="A Kubernetes for tests on this host."
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Command, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=run)
        return command

    add(
        "packages",
        lambda _machinery, _arguments: packages.install_packages(),
        "install missing Debian packages",
    )
    command = add("build", do_build, "build the programs into the cache; nothing where they are there")
    command.add_argument(
        "sets", nargs="*", metavar="SET", help="module sets (default: all that a cluster needs)"
    )
    add("tools", do_tools, "unpack kubectl and helm, and print the folder that they are in")
    command = add("up", do_up, "start a cluster, after cleaning up what a killed command left")
    command.add_argument("--nodes", type=int, default=2)
    command.add_argument("--gpus", type=int, default=0, help="fake GPUs of each node")
    command.add_argument(
        "--audit", action="store_true", help="log every API request; see `status` for the file"
    )
    command.add_argument("--fast-node-loss", action="store_true", help="notice a silent node in seconds")
    command.add_argument(
        "--arg", action="append", default=[], metavar="COMPONENT:FLAG", help="one more flag of a component"
    )
    command = add("down", do_down, "stop everything and remove every trace of it")
    command.add_argument("--keep-logs", action="store_true", help="copy the logs into the cache first")
    add("status", do_status, "say what is up")
    add("kubeconfig", do_kubeconfig, "print the path of the administrator's kubeconfig")
    add("environment", do_environment, "print what a shell needs to use the cluster, for eval")
    command = add("add-node", do_add_node, "start a node")
    command.add_argument("node")
    command.add_argument("--gpus", type=int, default=0, help="fake GPUs")
    command = add("remove-node", do_remove_node, "take a node away at once, pods and all")
    command.add_argument("node")
    command.add_argument(
        "--keep-object", action="store_true", help="keep the Node object, as a lost machine's is"
    )
    command = add("stop-kubelet", do_stop_kubelet, "kill a node's kubelet; its pods go on")
    command.add_argument("node")
    command = add("start-kubelet", do_start_kubelet, "start a node's kubelet again and wait for Ready")
    command.add_argument("node")
    command = add(
        "load-image", do_load_image, "import archives on every node (default: the cache's that it lacks)"
    )
    command.add_argument("archives", nargs="*", type=Path, metavar="ARCHIVE")
    command.add_argument("--node", action="append", help="only on this node")
    command = add("container-pid", do_container_pid, "print the host's pid of a container's first process")
    command.add_argument("namespace")
    command.add_argument("pod")
    command.add_argument("container", nargs="?")
    command = add("task-pid", do_task_pid, "the same by node and container id; nothing for one that ended")
    command.add_argument("node")
    command.add_argument("container_id")
    command = add("set-gpus", do_set_gpus, "let a node advertise fake GPUs")
    command.add_argument("node")
    command.add_argument("count", type=int)
    command = add("extra", do_extra, "start one in the running cluster; nothing where it runs already")
    command.add_argument("name", choices=sorted(EXTRAS))
    add("provision", do_provision, "make volumes for claims, for ever (`up` starts this)")
    return top


def do_build(machinery: Machinery, arguments: argparse.Namespace) -> None:
    """`build`."""
    with locked(machinery.paths.lock):
        build.build(machinery.paths, arguments.sets)


def do_tools(machinery: Machinery, _arguments: argparse.Namespace) -> None:
    """`tools`."""
    with locked(machinery.paths.lock):
        build.unpack_tools(machinery.paths)
    sys.stdout.write(f"{machinery.paths.bin}\n")


def do_up(machinery: Machinery, arguments: argparse.Namespace) -> None:
    """`up`."""
    options = Options(
        arguments.nodes, arguments.gpus, arguments.audit, arguments.fast_node_loss, tuple(arguments.arg)
    )
    lifecycle.up(machinery, options)


def do_down(machinery: Machinery, arguments: argparse.Namespace) -> None:
    """`down`."""
    lifecycle.down(machinery, arguments.keep_logs)


def do_status(machinery: Machinery, _arguments: argparse.Namespace) -> None:
    """`status`: exit status 1 where no cluster is up, or one is broken."""
    options = lifecycle.running_options(machinery)
    for name in machinery.processes.names():
        say(f"{name}: pid {machinery.processes.pid(name)}")
    say(
        f"logs in {machinery.paths.logs}"
        + (f", audit log {machinery.paths.audit_log}" if options.audit else "")
    )
    say(f"up with {', '.join(nodes.names(machinery))}; options {options.to_json()}")


def do_kubeconfig(machinery: Machinery, _arguments: argparse.Namespace) -> None:
    """`kubeconfig`."""
    sys.stdout.write(f"{machinery.paths.admin_kubeconfig}\n")


def do_environment(machinery: Machinery, _arguments: argparse.Namespace) -> None:
    """`environment`."""
    sys.stdout.write(f"export KUBECONFIG={machinery.paths.admin_kubeconfig}\n")
    sys.stdout.write(f'export PATH={machinery.paths.bin}:"$PATH"\n')


def do_add_node(machinery: Machinery, arguments: argparse.Namespace) -> None:
    """`add-node`."""
    options, since = lifecycle.running_options(machinery), dt.datetime.now(dt.UTC)
    with locked(machinery.paths.lock):
        golden = containerd.update_golden(machinery)
        nodes.add(machinery, options, arguments.node, golden)
    nodes.wait_ready(machinery, arguments.node, since)
    if arguments.gpus:
        nodes.set_gpus(machinery, arguments.node, arguments.gpus)


def do_remove_node(machinery: Machinery, arguments: argparse.Namespace) -> None:
    """`remove-node`."""
    lifecycle.running_options(machinery)
    with locked(machinery.paths.lock):
        nodes.remove(machinery, arguments.node, arguments.keep_object)


def do_stop_kubelet(machinery: Machinery, arguments: argparse.Namespace) -> None:
    """`stop-kubelet`."""
    nodes.stop_kubelet(machinery, arguments.node)


def do_start_kubelet(machinery: Machinery, arguments: argparse.Namespace) -> None:
    """`start-kubelet`."""
    since = dt.datetime.now(dt.UTC)
    nodes.start_kubelet(machinery, arguments.node)
    nodes.wait_ready(machinery, arguments.node, since)


def do_load_image(machinery: Machinery, arguments: argparse.Namespace) -> None:
    """`load-image`."""
    lifecycle.running_options(machinery)
    homes = [nodes.home_of(machinery, node) for node in arguments.node or nodes.names(machinery)]

    def load(home: Path) -> list[str]:
        if not arguments.archives:
            return containerd.load_missing(machinery, home)
        for archive in arguments.archives:
            containerd.load(machinery, home, archive)
        return [archive.name for archive in arguments.archives]

    with locked(machinery.paths.lock), ThreadPoolExecutor(len(homes)) as pool:
        for home, new in zip(homes, pool.map(load, homes), strict=True):
            say(f"{home.name}: {', '.join(new) if new else 'has all images'}")


def do_container_pid(machinery: Machinery, arguments: argparse.Namespace) -> None:
    """`container-pid`."""
    pid = nodes.container_pid(machinery, arguments.namespace, arguments.pod, arguments.container)
    sys.stdout.write(f"{pid}\n")


def do_task_pid(machinery: Machinery, arguments: argparse.Namespace) -> None:
    """`task-pid`."""
    pid = nodes.task_pid(machinery, arguments.node, arguments.container_id)
    sys.stdout.write("" if pid is None else f"{pid}\n")


def do_set_gpus(machinery: Machinery, arguments: argparse.Namespace) -> None:
    """`set-gpus`."""
    lifecycle.running_options(machinery)
    nodes.set_gpus(machinery, arguments.node, arguments.count)


def do_extra(machinery: Machinery, arguments: argparse.Namespace) -> None:
    """`extra`."""
    with locked(machinery.paths.lock):
        lifecycle.running_options(machinery)
        EXTRAS[arguments.name](machinery)


def do_provision(machinery: Machinery, _arguments: argparse.Namespace) -> None:
    """`provision`."""
    volumes.Provisioner(machinery).serve()


if __name__ == "__main__":
    sys.exit(main())
