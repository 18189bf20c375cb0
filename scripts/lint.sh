#!/usr/bin/env bash
# Every static check, one line each; all of them run, and the exit status is 1 where one failed.
# Needs nothing but .venv; what earlier releases promised is in compatibility/.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

failed=()
output="$(mktemp -d)"
trap 'rm -rf "$output"' EXIT

check() { # NAME COMMAND...
    local name="$1" start=$SECONDS
    shift
    if "$@" >"$output/log" 2>&1; then
        printf 'ok    %-24s %3d s\n' "$name" $((SECONDS - start))
    else
        printf 'FAIL  %-24s %3d s   %s\n' "$name" $((SECONDS - start)) "$*"
        sed 's/^/      /' "$output/log"
        failed+=("$name")
    fi
}

helm_lint() {
    local helm
    helm="$(python -m testcluster tools)/helm" && "$helm" lint --strict charts/dartes
}

PATH="$PWD/.venv/bin:$PATH"
mapfile -t shell_scripts < <(grep -lE '^#!.*\b(ba)?sh\b' .ci/* scripts/*)

check "ruff check" ruff check --output-format concise .
check "ruff format" ruff format --check --output-format concise .
check "mypy --strict" mypy
check "import-linter" lint-imports
check "buf lint" buf lint
check "compatibility" python -m scripts.check_compatibility
check "hadolint" hadolint Dockerfile
check "helm lint" helm_lint
check "shellcheck" shellcheck "${shell_scripts[@]}"
check "protocol modules" python scripts/generate_protocol.py --check
check "job reference" python -m dartes.spec.reference --check docs/job-reference.md
check "custom resource" python -m dartes.spec.crd --check crds/dartesjobs.dartes.dev.yaml
check "chart's resource" cmp crds/dartesjobs.dartes.dev.yaml charts/dartes/files/dartesjobs.dartes.dev.yaml
check "benchmarks page" python scripts/fill_benchmarks.py --check
check "requirements.lock" python scripts/check_lock.py
check "image lock files" python scripts/image_locks.py --check

if ((${#failed[@]})); then
    printf 'lint: %d failed: %s\n' "${#failed[@]}" "$(IFS=,; echo "${failed[*]}")" >&2
    exit 1
fi
