#!/usr/bin/env bash
# A contender for the mutex "orders" as the JVM library is one: plain SQL, no hints, and no look at the row
# before the transition of its owner is over. It leads for a second or so, releases, rests for two leases,
# and begins again, until its standard input is closed.
#
#   peer.sh IDENTITY MARIADB-CLIENT-ARGUMENT...
#
# Each line that it prints is a claim to lead: the microseconds since 1970 and the token.
set -euo pipefail
me=$1
client=("${@:2}")
ttl=1000 lease=1500 # milliseconds
now='cast(unix_timestamp(current_timestamp(3)) * 1000 as unsigned)'

sql() { mariadb "${client[@]}" --batch --skip-column-names --execute="$1"; }
micros() { echo "${EPOCHREALTIME/[.,]/}"; }

# rest waits for so many milliseconds, or ends the script once nobody is there to write to its input.
rest() {
  local status=0
  read -rt "$(printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)))" || status=$?
  [ $status -gt 128 ] || exit 0
}

acquire() {
  sql "update simba_mutex set fencing_token = fencing_token + 1, acquired_at = $now, ttl_at = $now + $ttl,
         transition_at = $now + $lease, owner_id = '$me', version = version + 1
         where mutex = 'orders' and transition_at < $now;
       select row_count(), fencing_token, greatest(cast(transition_at as signed) - cast($now as signed), 0)
         from simba_mutex where mutex = 'orders'"
}

renew() { # token
  sql "update simba_mutex set ttl_at = greatest(ttl_at, $now + $ttl), transition_at = greatest(transition_at, $now + $lease)
         where mutex = 'orders' and owner_id = '$me' and fencing_token = $1 and transition_at > $now;
       select row_count()"
}

release() { # token
  sql "update simba_mutex set acquired_at = 0, ttl_at = 0, transition_at = 0, owner_id = '', version = version + 1
         where mutex = 'orders' and owner_id = '$me' and fencing_token = $1"
}

# claim says that we lead, if our clock agrees.
claim() { # token
  local at
  at=$(micros)
  if ((at < until)); then echo "$at $1"; fi
}

while :; do
  asked=$(micros)
  answer=$(acquire)
  read -r took token left <<<"$answer"
  if [ "$took" != 1 ]; then
    wait=$((left - 200 + RANDOM % 1200))
    rest $((wait > 20 ? wait : 20))
    continue
  fi
  until=$((asked + ttl * 1000))
  for _ in {1..3}; do
    for _ in {1..10}; do
      claim "$token"
      rest 30
    done
    asked=$(micros)
    renewed=$(renew "$token")
    if [ "$renewed" != 1 ]; then
      continue 2 # lost
    fi
    until=$((asked + ttl * 1000))
  done
  claim "$token"
  release "$token"
  rest $((2 * lease))
done
