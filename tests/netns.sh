#!/bin/bash
# Runs jobs over test hosts: network namespaces on a bridge, reached by --rsh "ip netns exec".
#
#   tests/netns.sh [RINGWOOD]      default: build/release/bin/ringwood
#
# Needs root, iproute2 and the right to make namespaces; without them it says so and succeeds.
# The names carry this process's number, so that two runs do not meet.
set -uo pipefail
cd "$(dirname "$0")/.."
ringwood=$(realpath "${1:-build/release/bin/ringwood}")
hosts=3
id=$$
host() { echo "rw${id}h$1"; }
subnet=10.$((64 + id % 64)).$((id / 64 % 256))
failures=0

down() {
  for i in $(seq 0 $((hosts - 1))); do ip netns del "$(host "$i")" 2>/dev/null; done
  ip link del "rwb$id" 2>/dev/null
  rm -rf "$scratch"
}

up() {
  ip link add "rwb$id" type bridge && ip link set "rwb$id" up || return 1
  for i in $(seq 0 $((hosts - 1))); do
    ip netns add "$(host "$i")" &&
      ip link add "rwv${id}_$i" type veth peer name eth0 netns "$(host "$i")" &&
      ip link set "rwv${id}_$i" master "rwb$id" up &&
      ip -n "$(host "$i")" addr add "$subnet.$((i + 1))/24" dev eth0 &&
      ip -n "$(host "$i")" link set eth0 up && ip -n "$(host "$i")" link set lo up || return 1
  done
}

check() { # name, wanted exit code, wanted text or "", command…
  local name=$1 code=$2 text=$3 got
  shift 3
  "$@" >"$scratch/output" 2>&1
  got=$?
  if [ $got = "$code" ] && { [ -z "$text" ] || grep -q -- "$text" "$scratch/output"; }; then
    echo "ok      $name"
  else
    echo "FAILED  $name (exit code $got, wanted $code and \"$text\")"
    sed 's/^/  | /' "$scratch/output"
    failures=$((failures + 1))
  fi
}

run=(timeout 300 "$ringwood" run --rsh "ip netns exec" --network-interface eth0
  --trusted-fabric --failure-timeout 2)

gone() { # no process whose command line has the word is left within a minute
  for _ in $(seq 600); do
    pgrep -f -- "$1" >/dev/null || return 0
    sleep 0.1
  done
  pgrep -af -- "$1"
  return 1
}

running() { # so many processes are there within a minute whose command line is this
  for _ in $(seq 600); do
    [ "$(pgrep -cfx -- "$2")" = "$1" ] && return 0
    sleep 0.1
  done
  pgrep -af -- "$2"
  return 1
}

scratch=$(mktemp -d)
if [ "$(id -u)" != 0 ] || ! command -v ip >/dev/null; then
  echo "skipped: network namespaces need root and iproute2"
  rm -rf "$scratch"
  exit 0
fi
trap down EXIT
if ! up 2>"$scratch/error"; then
  echo "skipped: no network namespaces here: $(cat "$scratch/error")"
  exit 0
fi

three=$(host 0):1,$(host 1):2,$(host 2):1
check "every rank runs on its own host" 0 "\[3\] 3 $(host 2) $subnet.3" \
  "${run[@]}" -H "$three" -- sh -c 'echo $RANK $RINGWOOD_HOST $(ip -o -4 addr show eth0 | grep -o "[0-9.]*/24" | cut -d/ -f1)'
check "the coordinator is at the first host's address" 0 "^$subnet.1:" \
  "${run[@]}" -H "$three" -- sh -c 'echo $RINGWOOD_COORDINATOR'
check "rings run between hosts" 0 "4 ranks" \
  "${run[@]}" -H "$three" -- "$ringwood" bench allreduce --sizes 4K,1M --repeat 3
check "rings run with a reducer on every host" 0 "4 ranks" \
  "${run[@]}" -H "$three" --servers 3 -- "$ringwood" bench allreduce --sizes 4K --repeat 3
check "a trace is replayed between hosts" 0 '"world":4,"servers":3' \
  timeout 300 "$ringwood" replay --rsh "ip netns exec" --network-interface eth0 --trusted-fabric \
  -H "$three" --workers 4 --servers 3 --trace data/espresso/resnet50.csv --steps 1 --json
check "a host that is not there is named" 75 "rw${id}nohost" \
  "${run[@]}" -H "$(host 0):1,rw${id}nohost:1" -- sleep 60
check "a killed rank on another host is named" 75 "rank 2 (host $(host 1)) failed first" \
  "${run[@]}" -H "$three" -- sh -c '[ $RANK = 2 ] && kill -9 $$; sleep 0.5; exit 75'
check "ranks on other hosts are restarted" 0 "\[3\] attempt 1" \
  "${run[@]}" -H "$three" --max-restarts 1 -- \
  sh -c 'echo attempt $RINGWOOD_RESTART; exit $((75 - 75 * RINGWOOD_RESTART))'

check "an elastic job outlives the worker of a host" 0 "\[1\] attempt 1" \
  "${run[@]}" --elastic --no-server -H "$(host 0):1,$(host 1):1" -- sh -c 'echo attempt $RINGWOOD_RESTART
    if [ $RANK = 1 ]; then [ $RINGWOOD_RESTART = 0 ] && kill -9 $PPID && exec sleep 60; touch "$1"; fi
    until [ -e "$1" ]; do sleep 0.1; done' - "$scratch/back"

"${run[@]:2}" -H "$three" -- sleep "77$id.5" >"$scratch/output" 2>&1 &
launcher=$!
check "ranks run on all hosts" 0 "" running 4 "sleep 77$id[.]5"
kill -9 $launcher
wait $launcher 2>/dev/null
check "kill -9 of the launcher leaves nothing on the hosts" 0 "" gone "77$id[.]5"

prefix=fd79:$(printf %x $((id % 65535 + 1)))
for i in $(seq 0 $((hosts - 1))); do  # from now on the hosts have no IPv4
  ip -n "$(host "$i")" addr flush dev eth0 scope global
  ip -n "$(host "$i")" addr add "$prefix::$((i + 1))/64" dev eth0 nodad
done
check "over IPv6 the coordinator's address stands in brackets" 0 "^\[$prefix::1\]:" \
  "${run[@]}" -H "$three" -- sh -c 'echo $RINGWOOD_COORDINATOR'
check "over IPv6 rings and trees run by UCX" 0 '"world":4,"servers":3' \
  timeout 300 "$ringwood" replay --rsh "ip netns exec" --network-interface eth0 --trusted-fabric \
  -H "$three" --workers 4 --servers 3 --trace data/espresso/resnet50.csv --density 0.01 --steps 1 --json
check "over IPv6 they run by gRPC under TLS" 0 '"world":4,"servers":3' \
  timeout 300 "$ringwood" replay --rsh "ip netns exec" --network-interface eth0 \
  -H "$three" --workers 4 --servers 3 --trace data/espresso/resnet50.csv --density 0.01 --steps 1 --json
check "over IPv6 ranks on other hosts are restarted" 0 "\[3\] attempt 1" \
  "${run[@]}" -H "$three" --max-restarts 1 -- \
  sh -c 'echo attempt $RINGWOOD_RESTART; exit $((75 - 75 * RINGWOOD_RESTART))'
check "over IPv6 the doctor finds the hosts ready" 0 "$prefix::2" \
  timeout 300 "$ringwood" doctor --rsh "ip netns exec" --network-interface eth0 --trusted-fabric \
  -H "$(host 0),$(host 1)"
"$ringwood" ca init "$scratch/ca" >"$scratch/output" 2>&1 &&
  "$ringwood" ca issue "$scratch/ca" --role server --out "$scratch/page" >>"$scratch/output" 2>&1 || failures=$((failures + 1))
check "over IPv6 the status page is HTTPS on a network that is not private" 0 "metrics at https://\[$prefix::1\]:" \
  timeout 300 "$ringwood" run --rsh "ip netns exec" --network-interface eth0 -H "$three" \
  --http :0 --http-tls "$scratch/page" -- true

[ $failures = 0 ] && echo "all passed"
exit $((failures > 0))
