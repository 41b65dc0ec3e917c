#!/bin/bash
# Hosts for benchmarks on one machine: network namespaces PREFIX0, PREFIX1, … with one interface eth0 each
# (10.79.0.1, .2, …) on a common bridge, every interface shaped to RATE in both directions.
#
#   bench/netns.sh up COUNT RATE [PREFIX]     RATE as tc reads it: 1gbit, 100mbit; PREFIX: rwbench
#   bench/netns.sh down COUNT [PREFIX]
#
# Needs root, iproute2 and the htb queue. A rank on host 2:  ip netns exec rwbench2 COMMAND
set -euo pipefail

shape() {  # RATE DEVICE [NAMESPACE]
  local tc=(tc)
  if [ $# -gt 2 ]; then tc=(ip netns exec "$3" tc); fi
  # A burst of one or a few segments: long ones would let short messages pass unshaped.
  local burst=64kb
  case "$1" in *mbit) if [ "${1%mbit}" -le 250 ]; then burst=16kb; fi ;; esac
  "${tc[@]}" qdisc add dev "$2" root handle 1: htb default 1
  "${tc[@]}" class add dev "$2" parent 1: classid 1:1 htb rate "$1" ceil "$1" \
    burst "$burst" cburst "$burst" quantum 60000
}

up() {  # COUNT RATE PREFIX
  ip link add "$3br" type bridge
  ip link set "$3br" up
  local i
  for ((i = 0; i < $1; ++i)); do
    ip netns add "$3$i"
    ip link add "$3v$i" type veth peer name eth0 netns "$3$i"
    ip link set "$3v$i" master "$3br" up
    ip -n "$3$i" addr add "10.79.0.$((i + 1))/24" dev eth0
    ip -n "$3$i" link set lo up
    ip -n "$3$i" link set eth0 up
    shape "$2" eth0 "$3$i"
    shape "$2" "$3v$i"
  done
}

down() {  # COUNT PREFIX
  local i
  for ((i = 0; i < $1; ++i)); do ip netns del "$2$i" 2>/dev/null || true; done
  ip link del "$2br" 2>/dev/null || true
}

case "${1:-}" in
  up) up "$2" "$3" "${4:-rwbench}" ;;
  down) down "$2" "${3:-rwbench}" ;;
  *) sed -n '2,8p' "$0"; exit 78 ;;
esac
