#!/usr/bin/env bash
# Runs a cluster of trainer processes on this machine; `./run_local_cluster.sh --help` says how.
# It is `python -m estimator_trainer cluster`, started from any folder. PYTHON names another interpreter.
set -euo pipefail

self=$(readlink -f -- "${BASH_SOURCE[0]}" 2>/dev/null || echo "${BASH_SOURCE[0]}")
root=$(CDPATH='' cd -- "$(dirname -- "$self")" && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"

python=${PYTHON:-python}
if [[ -z ${PYTHON:-} ]] && ! command -v python >/dev/null; then
  python=python3
fi
exec "$python" -m estimator_trainer cluster "$@"
