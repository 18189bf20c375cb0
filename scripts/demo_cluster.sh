#!/usr/bin/env bash
# What `make demo-cluster` shows: from nothing to a model fine-tuned by a cluster, with the commands that a user
# would type. The cluster is the project's own (testcluster/); it stays up afterwards.
set -euo pipefail
cd "$(dirname "$0")/.."

python=.venv/bin/python
export PATH="$PWD/.venv/bin:$PATH"
output=runs/demo-cluster

show() {
    printf '\n$ %s\n' "$*"
    "$@"
}

echo "== a cluster, and the images on its nodes"
"$python" -m testcluster packages
"$python" -m testcluster build
"$python" -m testcluster.images build
"$python" -m testcluster status >/dev/null 2>&1 || "$python" -m testcluster up --audit
"$python" -m testcluster load-image >/dev/null
eval "$("$python" -m testcluster environment)"
show kubectl get nodes

echo
echo "== the operator"
show helm upgrade --install dartes charts/dartes -n dartes-system --create-namespace --set image.registry= --wait

echo
echo "== a job"
kubectl delete --ignore-not-found dej/addition >/dev/null
kubectl delete --ignore-not-found pvc/addition-checkpoint >/dev/null
show kubectl apply -f examples/addition.yaml
printf '\n$ kubectl get dej -w\n'
kubectl get dej -w &
watching=$!
trap 'kill "$watching" 2>/dev/null || true' EXIT
kubectl wait --for=condition=Complete dej/addition --timeout=300s >/dev/null
sleep 1 # the last line of the watch
kill "$watching"
wait "$watching" 2>/dev/null || true
trap - EXIT
show kubectl dartes status addition

echo
echo "== its model"
rm -rf "$output"
mkdir -p "$(dirname "$output")"
show kubectl dartes export addition --output "$output"
show "$python" scripts/show_answers.py examples/addition.yaml "$output" --count 5

echo
echo "The cluster is still up:  eval \"\$(.venv/bin/python -m testcluster environment)\"  gives you kubectl and helm."
echo "\`make cluster-down\` removes every trace of it."
