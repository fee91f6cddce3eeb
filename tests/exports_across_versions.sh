#!/usr/bin/env bash
# Trains and exports with each of two Pythons, and compares what both predict with each export.
# Usage: exports_across_versions.sh PYTHON_A PYTHON_B
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

predict='
import glob, sys
import numpy as np, tensorflow as tf
images = np.random.RandomState(0).randint(0, 256, (16, 28, 28, 1)).astype(np.uint8)
path = glob.glob(sys.argv[1] + "/export/final/*/")[0]
serve = tf.saved_model.load(path).signatures["serving_default"]
np.save(sys.argv[2], serve(image=tf.constant(images))["logits"].numpy())
print("TF", tf.__version__, "predicts with", sys.argv[1].rsplit("/", 1)[1])
'
compare='
import sys
import numpy as np
one, two = (np.load(path) for path in sys.argv[1:])
difference = np.abs(one - two).max() / np.abs(one).max()
print(f"largest relative difference {difference:.1e}")
sys.exit(int(difference > 1e-5))
'
export TF_CPP_MIN_LOG_LEVEL=3
for from in A B; do
  python=$([ $from = A ] && echo "$1" || echo "$2")
  "$python" -m estimator_trainer --max_steps=30 --model_dir="$work/from_$from" --data_dir="$work/data"
  for by in "$1" "$2"; do
    timeout 120 "$by" -c "$predict" "$work/from_$from" "$work/by_$([ "$by" = "$1" ] && echo A || echo B).npy" \
      2>"$work/errors" || { cat "$work/errors" >&2 && exit 1; }
  done
  "$1" -c "$compare" "$work/by_A.npy" "$work/by_B.npy"
done
echo "exports predict the same in both versions"
