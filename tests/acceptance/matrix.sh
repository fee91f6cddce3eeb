#!/usr/bin/env bash
# Makes an environment for each TensorFlow x Python that compat claims, and runs the acceptance programs in
# it against plain TensorFlow 2.15.1. About 5 minutes and 2 GB each; one at a time; not part of CI.
#   bash tests/acceptance/matrix.sh [FOLDER] [TF-PYTHON ...]      e.g. /tmp/env 2.21-3.13 2.16-3.11
# Pythons are looked for as pythonX.Y, then under ~/.pyenv/versions. KEEP=1 keeps the environments, plain
# 2.15.1 is kept always.
set -uo pipefail
cd "$(dirname "$0")/../.."
folder=${1:-/tmp/estimator_trainer_matrix}
shift || true
[ $# -gt 0 ] || set -- 2.21-3.10 2.21-3.12 2.21-3.13 2.16-3.11 2.17-3.11 2.18-3.11 2.19-3.11 2.20-3.11
mkdir -p "$folder"

python_of() {  # version
  for found in "$(command -v "python$1")" ~/.pyenv/versions/"$1".*/bin/python; do
    [ -x "$found" ] && "$found" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" && echo "$found" && return
  done
  echo "no Python $1 on this machine" >&2
  return 1
}

environment() {  # folder, Python version, pip arguments
  [ -x "$1/bin/python" ] && return
  local python
  python=$(python_of "$2") || return 1
  "$python" -m venv "$1" && "$1/bin/python" -m pip install -q --upgrade pip &&
    timeout 900 "$1/bin/python" -m pip install -q "${@:3}" || { rm -rf "$1"; return 1; }
}

plain=$folder/plain-2.15.1
environment "$plain" 3.11 -c constraints-tf2.15.txt tensorflow tensorflow-estimator 'numpy<2' || exit 1
[ -s "$folder/plain.json" ] ||
  timeout 900 "$plain/bin/python" tests/acceptance/compare.py --plain="$plain/bin/python" --save="$folder/plain.json" || exit 1

failed=0
for which in "$@"; do
  tensorflow=${which%-*} python=${which#*-} venv=$folder/tf$which
  echo "== TensorFlow $tensorflow, Python $python"
  more=()
  [ "$tensorflow" = 2.20 ] && more=('protobuf<7')  # 2.20 lets 7 in and then calls what 7 no longer has
  environment "$venv" "$python" "tensorflow==$tensorflow.*" "tf-keras==$tensorflow.*" 'tensorflow-estimator==2.15.*' "${more[@]}" &&
    PYTHONPATH=$PWD "$venv/bin/python" -m estimator_trainer doctor | grep -E '^(tensorflow|works|problem)' &&
    timeout 900 "$venv/bin/python" tests/acceptance/compare.py --plain="$folder/plain.json" --compat="$venv/bin/python" ||
    failed=1
  [ -n "${KEEP:-}" ] || rm -rf "$venv"
done
exit $failed
