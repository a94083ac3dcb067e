#!/usr/bin/env bash
# Shows an election in one terminal: three contenders for one mutex on a local directory, a leader that
# stops and one that is killed. It ends by itself, cleans up after itself, and fails if a hand-over does
# not happen. Bash and the built binary are all it needs.
set -euo pipefail
simba=${1:-bin/simba-sidecar}
dir=$(mktemp -d)
names=(one two three)
declare -A pid=() port=()

cleanup() {
  local status=$?
  if [ ${#pid[@]} -gt 0 ]; then
    kill -KILL "${pid[@]}" || true
    wait "${pid[@]}" || true
  fi 2>/dev/null
  if [ $status -ne 0 ]; then tail -n 20 "$dir"/*.log >&2 || true; fi
  rm -rf "$dir"
}
trap cleanup EXIT

say() { printf '%6.2fs  %s\n' "$(($(now) - began))e-3" "$*"; }
now() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); } # milliseconds

start() { # name
  mkdir "$dir/$1"
  : >"$dir/$1.log"
  "$simba" --mutex demo --name "$1" --backend "local:$dir/store" --dir "$dir/$1" --ttl 2s --transition 1s \
    --listen 127.0.0.1:0 --admin-listen off --log-format text >"$dir/$1.log" 2>&1 &
  pid[$1]=$!
  for _ in {1..100}; do
    if [[ $(<"$dir/$1.log") =~ address=127\.0\.0\.1:([0-9]+) ]]; then port[$1]=${BASH_REMATCH[1]}; return; fi
    sleep 0.05
  done
  echo "$1 does not say which port it listens on" >&2
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

# report asks everybody over HTTP and fails unless $leader leads and nobody else does.
report() {
  local name status
  for name in "${names[@]}"; do
    if [ -z "${pid[$name]:-}" ]; then
      printf '         %-6s gone\n' "$name"
      continue
    fi
    status=0
    "$simba" check --url "http://127.0.0.1:${port[$name]}" >/dev/null || status=$?
    case $status$([ "$name" = "$leader" ] && echo leader) in
    0leader) printf '         %-6s 200  leads with token %s\n' "$name" "$(cut -d' ' -f1 "$dir/$name/leader")" ;;
    1) printf '         %-6s 503  stands by\n' "$name" ;;
    *) echo "$name should $([ "$name" = "$leader" ] || echo "not ")lead, but check returned $status" >&2; return 1 ;;
    esac
  done
}

began=$(now)
for name in "${names[@]}"; do
  start "$name"
  say "$name contends (pid ${pid[$name]}) and answers http://localhost:${port[$name]}/leader"
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
