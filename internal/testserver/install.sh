#!/bin/sh
# Installs the servers that the tests run against and that are not there yet. They are only installed, never
# started as services: the tests start their own. Quick and silent about what is there, so run it at will.
#
# MariaDB comes from the host's packages (Debian, Ubuntu). MySQL, which Debian releases do not have, comes from
# Debian unstable, as a file tree of its own in $SIMBA_TEST_ROOT (default /var/cache/simba-servers, about 600 MB).
set -eu

root=${SIMBA_TEST_ROOT:-/var/cache/simba-servers}
mirror=${SIMBA_TEST_MIRROR:-http://deb.debian.org/debian}
tree_packages=mysql-server-core # separated by commas

say() { echo "install.sh: $*"; }
has() { command -v "$1" >/dev/null 2>&1; }

has_mysql() { has mysqld && ! mysqld --version 2>/dev/null | grep -q MariaDB; }
has_tree() { [ -e "$root/.ready" ] && [ -x "$root/usr/sbin/mysqld" ]; }

packages=
{ has mariadbd && has mariadb-install-db; } || packages="$packages mariadb-server"
tree=no
has_mysql || has_tree || tree=yes
[ $tree = no ] || has debootstrap || packages="$packages debootstrap"

if [ -z "$packages" ] && [ $tree = no ]; then
  exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
  say "missing:$packages$([ $tree = no ] || echo " MySQL in $root"); as root, run:" >&2
  echo "  sudo${SIMBA_TEST_ROOT:+ SIMBA_TEST_ROOT=$root} $0" >&2
  exit 1
fi
has apt-get || { say "needs apt-get (Debian or Ubuntu); elsewhere put mariadbd and mysqld on the PATH" >&2; exit 1; }
export DEBIAN_FRONTEND=noninteractive

# A policy-rc.d that says 101 keeps packages from starting their services; one that is there already stays.
policy=/usr/sbin/policy-rc.d
made_policy=
cleanup() {
  [ -z "$made_policy" ] || rm -f "$policy"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

if [ -n "$packages" ]; then
  say "installing$packages"
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    made_policy=yes
  fi
  apt-get update -q
  # shellcheck disable=SC2086 # a list of words
  apt-get install -q -y --no-install-recommends $packages
fi

if [ $tree = yes ]; then
  if [ -e "$root" ] && [ ! -e "$root/debootstrap" ] && [ -n "$(ls -A "$root")" ] && [ ! -e "$root/etc/debian_version" ]; then
    say "$root is in the way: it is not a tree of ours" >&2
    exit 1
  fi
  say "installing $tree_packages from Debian unstable in $root (a few minutes)"
  rm -rf "$root"
  debootstrap --variant=minbase --include="$tree_packages" sid "$root" "$mirror"
  : >"$root/.ready"
fi
say "done"
