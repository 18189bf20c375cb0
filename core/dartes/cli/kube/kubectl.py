"""Calls of the user's own `kubectl`: every wait has an end, and what it refuses becomes one plain error.

The arguments that choose cluster and namespace are added to each call here and nowhere else.
"""

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO, Any, Final

from dartes.cli.kube.names import RESOURCE
from dartes.errors import ConfigurationError, DartesError, ExitCode, TransientError

REQUEST_SECONDS: Final = 15
"""What the API server may take for one answer."""

CALL_SECONDS: Final = 45.0
"""What a whole call of kubectl may take, a plugin that logs in included."""

END_SECONDS: Final = 5.0

ANSWER_BYTES: Final = 64 * 2**20


class NotFoundError(ConfigurationError):
    """The API server has no such object."""


@dataclass(frozen=True)
class Target:
    """Which cluster and namespace, where not those of the kubeconfig's current context."""

    namespace: str | None = None
    context: str | None = None
    kubeconfig: str | None = None

    def arguments(self) -> list[str]:
        """As arguments of kubectl."""
        given = {
            "--namespace": self.namespace,
            "--context": self.context,
            "--kubeconfig": self.kubeconfig,
        }
        return [f"{option}={value}" for option, value in given.items() if value]

    def in_words(self) -> str:
        """The namespace, for messages."""
        return f"namespace {self.namespace!r}" if self.namespace else "the current namespace"


class Kubectl:
    """The `kubectl` on the path, aimed at one namespace of one cluster."""

    def __init__(self, target: Target) -> None:
        program = shutil.which("kubectl")
        if program is None:
            raise ConfigurationError(
                "kubectl isn't on the PATH; install it (https://kubernetes.io/docs/tasks/tools/) or add its "
                "folder to PATH"
            )
        self.target = target
        self._program = program

    def objects(self, *words: str) -> dict[str, Any]:
        """`kubectl get WORDS -o json`, parsed. Raises as `run`."""
        raw = self.run("get", *words, "-o", "json", f"--request-timeout={REQUEST_SECONDS}s")
        try:
            document: dict[str, Any] = json.loads(raw)
        except ValueError as error:
            raise TransientError(
                f"kubectl get {words[0]}: the answer is no JSON ({error}); try again"
            ) from error
        return document

    def run(
        self,
        *words: str,
        given: bytes | None = None,
        seconds: float = CALL_SECONDS,
        most_bytes: int = ANSWER_BYTES,
    ) -> bytes:
        """Call kubectl, with `given` as its input, and return what it prints.

        Raises
        ------
        NotFoundError
            There is no such object.
        ConfigurationError
            The kubeconfig, the rights or the arguments are at fault, in kubectl's own words.
        TransientError
            The cluster can't be reached, takes too long, or the answer is larger than `most_bytes`.
        """
        command = [self._program, *self.target.arguments(), *words]
        with TemporaryFile() as output:
            try:
                done = subprocess.run(
                    command,
                    input=given,
                    stdin=subprocess.DEVNULL if given is None else None,
                    stdout=output,
                    stderr=subprocess.PIPE,
                    timeout=seconds,
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                raise TransientError(
                    f"kubectl {words[0]}: no answer within {seconds:.0f} s; try again"
                ) from error
            if done.returncode:
                raise refusal(words, done.stderr)
            if output.tell() > most_bytes:
                raise TransientError(f"kubectl {words[0]}: an answer of more than {most_bytes} bytes")
            output.seek(0)
            return output.read()

    @contextmanager
    def stream(self, *words: str, given: bytes, seconds: float) -> Iterator[IO[bytes]]:
        """What kubectl prints as a stream, with `given` as its input, cut off after `seconds`.

        Raises as `run` at the end of the block, also in place of an error that a cut stream led to.
        """
        with TemporaryFile() as errors, TemporaryFile() as handed:
            handed.write(given)
            handed.seek(0)
            process = subprocess.Popen(
                [self._program, *self.target.arguments(), *words],
                stdin=handed,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
            assert process.stdout is not None
            end = threading.Timer(seconds, process.kill)
            end.daemon = True
            end.start()
            try:
                yield process.stdout
            except (EOFError, OSError, ValueError, DartesError):
                # A stream that ends early has its reason at its other end, where there is one.
                code = self._ended(process)
                if code > 0:
                    errors.seek(0)
                    raise refusal(words, errors.read()) from None
                raise
            finally:
                end.cancel()
                self._ended(process)
            if process.returncode:
                errors.seek(0)
                raise refusal(words, errors.read())

    @staticmethod
    def _ended(process: "subprocess.Popen[bytes]") -> int:
        """Wait a little for its end, then make it; its exit code."""
        assert process.stdout is not None
        process.stdout.close()
        try:
            return process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def lines(self, *words: str) -> Iterator[bytes]:
        """The lines that kubectl prints, as they come, without their ends; raises as `run` at the end."""
        with TemporaryFile() as errors:
            process = subprocess.Popen(
                [self._program, *self.target.arguments(), *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    yield line.rstrip(b"\r\n")
            finally:
                process.stdout.close()
                if process.poll() is None:
                    process.terminate()
                code = process.wait()
            if code:
                errors.seek(0)
                raise refusal(words, errors.read())


def refusal(words: Sequence[str], stderr: bytes) -> DartesError:
    """What kubectl printed on its standard error as an error of ours, with what to do about it."""
    text = stderr.decode("utf-8", "replace")
    said = _last_words(text)
    lower = said.lower()
    ended = re.search(r"^command terminated with exit code (\d+)", text, re.MULTILINE)
    if "No module named" in said and "dartes" in said:
        return ConfigurationError(f"the job's images are of a version that can't do this: {said}")
    if ended is not None:  # the words are those of a program of ours in a pod
        again = int(ended[1]) in (ExitCode.TRANSIENT, ExitCode.DRAINED, 137)
        return TransientError(f"in the pod: {said}") if again else ConfigurationError(f"in the pod: {said}")
    if f'resource type "{RESOURCE.partition(".")[0]}' in said or "no matches for kind" in lower:
        return ConfigurationError(
            "this cluster has no DartESJob resource: DART-ES isn't installed in it, or this is another "
            f"cluster than you think (kubectl config current-context); kubectl says: {said}"
        )
    if "(notfound)" in lower or re.search(r'"[^"]*" not found', lower):
        return NotFoundError(said)
    if "(forbidden)" in lower or "unauthorized" in lower or "must be logged in" in lower:
        return ConfigurationError(f"kubectl {words[0]}: you may not do this here: {said}")
    if any(sign in lower for sign in _UNREACHABLE):
        return TransientError(f"kubectl {words[0]}: the cluster can't be reached: {said}")
    return ConfigurationError(f"kubectl {words[0]}: {said}")


_UNREACHABLE: Final = (
    "unable to connect",
    "connection refused",
    "was refused",
    "timed out",
    "timeout",
    "no such host",
    "i/o timeout",
    "serviceunavailable",
    "internalerror",
    "too many requests",
    "eof",
    "tls handshake",
    "error dialing backend",
)


_IDLE: Final = re.compile(r"[EWI]\d{4} |Warning: |Defaulted container|command terminated with exit code")


def _last_words(text: str) -> str:
    """The lines that say what is wrong, without warnings, as one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if not _IDLE.match(line)]
    found = (telling or lines)[-3:]
    return " ".join(line.removeprefix("error: ") for line in found) or "it printed no reason"
