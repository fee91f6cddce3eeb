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
export_and_predict() {  # A or B, its Python, the other one: trains and exports with its own, predicts with both
  "$2" -m estimator_trainer --max_steps=30 --model_dir="$work/from_$1" --data_dir="$work/data_$1"
  for by in "$2" "$3"; do
    timeout 300 "$by" -c "$predict" "$work/from_$1" "$work/$1_by_$([ "$by" = "$2" ] && echo itself || echo other).npy" \
      2>"$work/errors_$1" || { cat "$work/errors_$1" >&2 && return 1; }
  done
  "$2" -c "$compare" "$work/$1_by_itself.npy" "$work/$1_by_other.npy"
}
export_and_predict A "$1" "$2" & one=$!
export_and_predict B "$2" "$1" & other=$!
wait $one && wait $other
echo "exports predict the same in both versions"
