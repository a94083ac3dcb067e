#!/bin/sh
# Installs the servers that the tests run against and that are not there yet. They are only installed, never
# started as services: the tests start their own. Takes no time when all is there, so run it at will.
#
# MariaDB comes from the host's packages (Debian, Ubuntu). MySQL, which Debian releases do not have, comes from
# Debian unstable, in a file tree of its own: $SIMBA_TEST_ROOT, by default /var/cache/simba-servers, about 600 MB.
set -eu

root=${SIMBA_TEST_ROOT:-/var/cache/simba-servers}
PATH=$PATH:/usr/local/sbin:/usr/sbin # where servers are, and not everybody looks

say() { echo "install.sh: $*" >&2; }
die() { say "$*"; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }
has_mysql() { has mysqld && ! mysqld --version 2>/dev/null | grep -q MariaDB; }
has_tree() { [ -e "$root/.ready" ]; }

missing_packages() {
  { has mariadbd && has mariadb-install-db; } || echo mariadb-server-core
  # mariadb-install-db calls the second; the first is the client that a peer in the tests is written for.
  { has mariadb && has my_print_defaults; } || echo mariadb-client-core
}

missing_in_tree() {
  has_mysql || { has_tree && [ -x "$root/usr/sbin/mysqld" ]; } || echo mysql-server-core
}

missing=$(missing_packages; missing_in_tree)
[ -n "$missing" ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
  say "missing: $(echo $missing). Run this:"
  echo "sudo${CI:+ CI=$CI}${SIMBA_TEST_ROOT:+ SIMBA_TEST_ROOT=$root} $0" >&2
  exit 1
fi
has apt-get || die "needs Debian or Ubuntu; elsewhere put MariaDB's server and client and MySQL's mysqld on the PATH"

export DEBIAN_FRONTEND=noninteractive
# MariaDB and MySQL packages exclude each other. Only a machine that is thrown away may lose one of them by this.
keep=--no-remove
[ "${CI:-}" != true ] || keep=
updated=

install() { # packages on the host
  say "installing $*"
  [ -n "$updated" ] || apt-get update -q
  updated=yes
  apt-get install -q -y --no-install-recommends $keep "$@" ||
    die "not installed: $*. If apt would have to remove a MySQL server, run the tests in a container instead"
}

install_tree() {
  { has debootstrap && [ -e /usr/share/keyrings/debian-archive-keyring.gpg ]; } ||
    install debootstrap debian-archive-keyring
  if [ -e "$root" ]; then
    rmdir "$root" || die "$root is in the way; remove it, or set SIMBA_TEST_ROOT to another place"
  fi
  say "installing Debian unstable in $root (a few minutes)"
  mkdir -p "$(dirname "$root")"
  unfinished=$(mktemp -d "$root.XXXXXX")
  trap 'umount "$unfinished/proc" 2>/dev/null; rm -rf --one-file-system "$unfinished"' EXIT
  trap 'exit 1' INT TERM
  chmod 755 "$unfinished"
  debootstrap --variant=minbase sid "$unfinished"
  # Packages ask this before they start a service; 101 means no.
  printf '#!/bin/sh\nexit 101\n' >"$unfinished/usr/sbin/policy-rc.d"
  chmod 755 "$unfinished/usr/sbin/policy-rc.d"
  : >"$unfinished/.ready"
  mv "$unfinished" "$root"
  trap - EXIT INT TERM
}

install_in_tree() { # packages in the tree
  say "installing $* in $root"
  set -- chroot "$root" apt-get install -q -y --no-install-recommends "$@"
  # A new tree knows what there is; an older one may ask for versions that are gone.
  "$@" || { chroot "$root" apt-get update -q && "$@"; }
}

packages=$(missing_packages)
[ -z "$packages" ] || install $packages
# Asked only now, because what was installed may have taken a MySQL's place.
packages=$(missing_in_tree)
if [ -n "$packages" ]; then
  has_tree || install_tree
  install_in_tree $packages
fi
say "all servers are there"
