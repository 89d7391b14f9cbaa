#!/usr/bin/env bash
# Runs a command inside a Slurm of one machine, started for it and gone after it; as root.
#   with-slurm.sh COMMAND…
set -euo pipefail

for program in munged slurmctld slurmd srun; do
  if ! command -v "$program" >/dev/null; then
    echo "SLURM NOT TRIED: no $program (packages.txt, [slurm])" >&2
    exit 77
  fi
done
if [[ $(id -u) -ne 0 ]]; then
  echo "SLURM NOT TRIED: its daemons need root" >&2
  exit 77
fi

ulimit -c 0  # ranks are killed on purpose
folder=$(mktemp -d /tmp/athanor-slurm.XXXXXX)
chmod 755 "$folder"
munged_pid='' controller='' daemon=''
stop() {
  local pid
  for pid in $daemon $controller $munged_pid; do kill "$pid" 2>/dev/null || true; done
  for pid in $daemon $controller; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$folder"
}
trap stop EXIT

mkdir -m 755 "$folder/munge"
dd if=/dev/urandom of="$folder/munge/key" bs=64 count=1 status=none
chmod 400 "$folder/munge/key"
munged --force --foreground --key-file="$folder/munge/key" --socket="$folder/munge/socket" \
  --pid-file="$folder/munge/pid" --log-file="$folder/munge/log" --seed-file="$folder/munge/seed" >/dev/null 2>&1 &
munged_pid=$!

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'; }
cores=$(nproc)
name=$(hostname -s)
export SLURM_CONF=$folder/slurm.conf
cat >"$SLURM_CONF" <<CONF
ClusterName=athanor
SlurmctldHost=$name(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
CredType=cred/munge
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmdSpoolDir=$folder/spool
StateSaveLocation=$folder/state
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PropagateResourceLimits=NONE
ReturnToService=2
KillWait=10
MpiDefault=none
NodeName=$name NodeAddr=127.0.0.1 CPUs=$cores State=UNKNOWN
PartitionName=all Nodes=$name Default=YES MaxTime=10 State=UP OverSubscribe=FORCE:16
CONF
mkdir "$folder/spool" "$folder/state"
for _ in $(seq 50); do
  if [[ -S $folder/munge/socket ]]; then break; fi
  sleep 0.1
done
slurmctld -D -f "$SLURM_CONF" >/dev/null 2>&1 &
controller=$!
slurmd -D -f "$SLURM_CONF" -N "$name" >/dev/null 2>&1 &
daemon=$!
for _ in $(seq 200); do
  if sinfo -h -o %t 2>/dev/null | grep -q -E 'idle|mix|alloc'; then break; fi
  sleep 0.1
done
if ! sinfo -h -o %t | grep -q -E 'idle|mix|alloc'; then
  tail -n 5 "$folder"/*.log >&2
  exit 1
fi
"$@"
