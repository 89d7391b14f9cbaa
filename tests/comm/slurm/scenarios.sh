#!/usr/bin/env bash
# Ranks under srun, inside with-slurm.sh: what both MPIs and Slurm itself make of ends of all kinds.
#   scenarios.sh RANK_PROGRAM MPI…       MPI: openmpi, mpich
set -uo pipefail
program=$1
shift
failed=0
host=$(hostname)
output=$(mktemp)
trap 'rm -f "$output"' EXIT

# expect CODE TEXT COMMAND…: the command's exit code, and a line that its output must hold.
expect() {
  local code=$1 text=$2 status=0
  shift 2
  timeout 60 "$@" >"$output" 2>&1 || status=$?
  if ((status != code)) || ! grep -qF -- "$text" "$output"; then
    printf 'FAILED: %s\n  wanted %s and "%s", got %s:\n' "$*" "$code" "$text" "$status"
    cat "$output"
    failed=1
  else
    printf 'ok: %s\n' "$*"
  fi
}

for mpi in "$@"; do
  pmi=pmi2
  if [[ $mpi == openmpi ]]; then pmi=pmix; fi
  run=(srun -n 2 --overcommit "--mpi=$pmi" "$program" play)
  expect 0 'saved step 20' "${run[@]}"
  expect 4 "athanor: rank 1 on host $host was killed by SIGKILL in the backward of step 5" \
    "${run[@]}" at=1:backward:5:signal=9
  expect 137 "athanor: rank 1 on host $host was lost with its parent process" \
    "${run[@]}" at=1:optimizer:4:kill-parent
  for code in 2 6 7; do
    expect "$code" "athanor: told to end with $code" "${run[@]}" "at=-1:data:3:error=$code"
  done
  # A worker that dies before MPI has started: -K ends those that wait for it.
  expect 4 "athanor: rank 1 on host $host was killed by SIGKILL in the start" \
    srun -n 2 -K --overcommit "--mpi=$pmi" "$program" play at=1:start:0:signal=9

  # An orderly stop: every process of the step gets the signal, and each rank takes it once.
  folder=$(mktemp -d)
  "${run[@]}" steps=100000 "folder=$folder" >"$output" 2>&1 &
  step=$!
  for _ in $(seq 300); do
    if [[ -f $folder/rank-0 && -f $folder/rank-1 ]]; then break; fi
    sleep 0.1
  done
  scancel --signal=TERM "$(squeue -h -o %i | head -n 1)"
  status=0
  wait "$step" || status=$?
  if ((status != 7)) || ! grep -q '^saved step' "$output" || ! grep -q 'athanor: stopped in order' "$output"; then
    printf 'FAILED: %s: scancel --signal=TERM: got %s:\n' "$mpi" "$status"
    cat "$output"
    failed=1
  else
    printf 'ok: %s: scancel --signal=TERM\n' "$mpi"
  fi
  rm -rf "$folder"
done
expect 2 'srun started 2 tasks that cannot find each other' srun -n 2 --overcommit --mpi=none "$program" play
exit "$failed"
