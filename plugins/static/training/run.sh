#!/bin/sh
# Makes the model: run.sh FOLDER. What is in the folder already is not made again by the steps that fetch or teach.
set -eu
here=$(dirname "$0")
work=$1
mkdir -p "$work"
export OMP_NUM_THREADS=1 PYTHONHASHSEED=0
python "$here/inputs.py" "$work"
python "$here/corpus.py" "$work"
python "$here/vocabulary.py" "$work"
python "$here/teach.py" "$work"
python "$here/fit.py" "$work"
python "$here/pack.py" "$work" "$work/final"
