#!/bin/bash
# Runs comm/process_worker under real launchers: Open MPI, and two hosts made of network namespaces. What the machine
# does not allow is skipped by name.
set -u
worker=$PWD/comm/process_worker
failures=0

expect_ranks() {   # name, number of ranks, output
  local rank
  for ((rank = 0; rank < $2; ++rank)); do
    grep -q "rank $rank of $2 .*: ok" <<<"$3" || { echo "FAILED: $1: rank $rank"; echo "$3"; failures=1; return; }
  done
  echo "PASSED: $1"
}

under_mpirun() {
  local name="under mpirun, $1"
  command -v mpirun >/dev/null || { echo "SKIPPED: $name: there is no mpirun"; return; }
  # mpirun keeps its session under HOME and TMPDIR, whose path must be short.
  local home; home=$(mktemp -d /tmp/mpi.XXXXXX)
  local output; output=$(HOME=$home TMPDIR=$home timeout 60 mpirun --allow-run-as-root --oversubscribe -n 3 "$worker" "$1" 2>&1)
  rm -rf "$home"
  if grep -q "ORTE\|orte_init\|PMIx" <<<"$output" && ! grep -q "rank 0" <<<"$output"; then
    echo "SKIPPED: $name: mpirun does not run here"; return
  fi
  expect_ranks "$name" 3 "$output"
}

between_two_hosts() {
  local name="between two hosts (network namespaces)" a=armA$$ b=armB$$
  command -v ip >/dev/null || { echo "SKIPPED: $name: there is no ip"; return; }
  ip netns add $a 2>/dev/null || { echo "SKIPPED: $name: no right to make namespaces"; return; }
  trap "ip netns del $a; ip netns del $b 2>/dev/null" RETURN
  ip netns add $b 2>/dev/null && ip link add va$$ netns $a type veth peer name vb$$ netns $b 2>/dev/null &&
    ip -n $a addr add 10.213.7.1/24 dev va$$ && ip -n $b addr add 10.213.7.2/24 dev vb$$ &&
    ip -n $a link set va$$ up && ip -n $b link set vb$$ up && ip -n $a link set lo up && ip -n $b link set lo up ||
    { echo "SKIPPED: $name: no virtual network"; return; }
  local environment="WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=10.213.7.1 MASTER_PORT=29871" output
  output=$(env $environment RANK=1 timeout 60 ip netns exec $b "$worker" tcp 2>&1 &
           env $environment RANK=0 timeout 60 ip netns exec $a "$worker" tcp 2>&1; wait)
  expect_ranks "$name" 2 "$output"
}

under_mpirun automatic
under_mpirun tcp
between_two_hosts
exit $failures
