#!/bin/bash
# The network's rate falls from 1 Gbit/s to 200 Mbit/s in the middle of an adaptive run and comes
# back; beside it, adaptive runs that have each rate from the start.
#
#   bench/client/rate_change.sh [TRACE] [SECONDS]
#
# TRACE: data/espresso/resnet50.csv. SECONDS (25) at the first and the last rate, twice as many at
# the low one. Prints the coordinator's lines and a table. Needs what bench/netns.sh needs, and an
# idle machine. STEPS (150) and DENSITY (0.01) are of the changing run.
set -uo pipefail
cd "$(dirname "$0")/../.."
trace=${1:-data/espresso/resnet50.csv}
seconds=${2:-25}
name=rwclient
hosts=4
scratch=$(mktemp -d)
trap 'bench/netns.sh down $hosts $name; rm -rf "$scratch"' EXIT

rate() {  # RATE: of every network interface, both ways
  local i
  for ((i = 0; i < hosts; ++i)); do
    local change="parent 1: classid 1:1 htb rate $1 ceil $1 burst 16kb cburst 16kb quantum 60000"
    # shellcheck disable=SC2086
    ip netns exec $name$i tc class change dev eth0 $change
    # shellcheck disable=SC2086
    tc class change dev ${name}v$i $change
  done
}

replay() {  # STEPS OUTPUT
  RINGWOOD_ADAPT=1 RINGWOOD_LOG_LEVEL=info build/release/bin/ringwood replay --trace "$trace" --forward-ms 30 --workers $hosts \
    --hosts "$(for ((i = 0; i < hosts; ++i)); do printf '%s%d:1,' $name $i; done | sed 's/,$//')" \
    --rsh "ip netns exec" --network-interface eth0 --trusted-fabric --route auto --density "${DENSITY:-0.01}" \
    --warmup 0 --steps "$1" --json >"$2" 2>&1
}

bench/netns.sh up $hosts 1gbit $name || exit 1
for of in 1gbit 200mbit; do
  rate $of
  replay 30 "$scratch/$of" || { cat "$scratch/$of"; exit 1; }
done
rate 1gbit
replay "${STEPS:-150}" "$scratch/changing" &
sleep "$seconds" && rate 200mbit && sleep $((2 * seconds)) && rate 1gbit
wait $! || { cat "$scratch/changing"; exit 1; }
bench/client/rate_change.py "$scratch"
