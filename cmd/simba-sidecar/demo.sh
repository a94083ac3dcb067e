#!/usr/bin/env bash
# Shows an election in one terminal: three contenders for one mutex on a local directory, a leader that
# stops and one that is killed. It ends by itself, cleans up after itself, and fails if a hand-over does
# not happen. Bash and the built binary are all it needs.
set -euo pipefail
simba=${1:-bin/simba-sidecar}
dir=$(mktemp -d)
declare -A pid=() port=()

cleanup() {
  local status=$?
  if [ ${#pid[@]} -gt 0 ]; then
    kill -KILL "${pid[@]}" || true
    wait "${pid[@]}" || true
  fi 2>/dev/null
  if [ $status -ne 0 ]; then tail -n 20 "$dir"/*.log >&2; fi
  rm -rf "$dir"
}
trap cleanup EXIT

say() { printf '%6.2fs  %s\n' "$(($(now) - began))e-3" "$*"; }
now() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); } # milliseconds
leads() { "$simba" check --url "http://127.0.0.1:${port[$1]}/leader"; }
answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

start() { # name
  local p=$((RANDOM % 20000 + 10000))
  while answers $p; do p=$((p + 1)); done
  mkdir "$dir/$1"
  "$simba" --mutex demo --name "$1" --backend "local:$dir/store" --dir "$dir/$1" --ttl 2s --transition 1s \
    --listen "127.0.0.1:$p" --admin-listen off --log-format text >"$dir/$1.log" 2>&1 &
  pid[$1]=$! port[$1]=$p
  for _ in {1..100}; do answers $p && return; sleep 0.05; done
  echo "$1 does not answer on port $p" >&2
  return 1
}

# successor waits until one of the contenders that still run leads, and sets $leader to its name.
successor() {
  local name limit=$(($(now) + 10000))
  while [ "$(now)" -lt $limit ]; do
    for name in "${!pid[@]}"; do
      if [ -e "$dir/$name/leader" ]; then leader=$name; return; fi
    done
    sleep 0.005
  done
  echo "nobody leads after 10 seconds" >&2
  return 1
}

# report asks everybody over HTTP and fails unless exactly $leader leads.
report() {
  local name
  for name in $(printf '%s\n' "${!pid[@]}" | sort); do
    if leads "$name" >/dev/null; then
      printf '         %-6s 200  leads with token %s\n' "$name" "$(cut -d' ' -f1 "$dir/$name/leader")"
      [ "$name" = "$leader" ]
    else
      printf '         %-6s 503  stands by\n' "$name"
      [ "$name" != "$leader" ]
    fi
  done
}

began=$(now)
for name in one two three; do
  start $name
  say "$name contends; ask it with: curl -i localhost:${port[$name]}/leader"
done
successor
say "elected:"
report

old=$leader stopped=${pid[$leader]}
say "stopping $old (SIGTERM): it gives the mutex up"
at=$(now)
kill -TERM "$stopped"
unset "pid[$old]"
successor
say "$leader leads $(($(now) - at)) ms later:"
wait "$stopped" # fails unless it ended cleanly
report

old=$leader killed=${pid[$leader]}
say "killing $old (SIGKILL): its lease has to run out, 3 s after it was last renewed"
at=$(now)
kill -KILL "$killed"
wait "$killed" 2>/dev/null || true
unset "pid[$old]"
successor
say "$leader leads $(($(now) - at)) ms later:"
report
say "done"
