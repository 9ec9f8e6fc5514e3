#!/bin/bash
# Unpacks PostgreSQL with pgbench into a root tree of its own, from Debian's packages. Nothing is installed on this machine, where the
# package would make a cluster and start it.
#   postgres-root.sh [15|17|18]   prints where it lies: postgres@15 in the cache (tools/debian-archive.sh says where that is), 120 MB
# Needs root, for the chroot. PostgreSQL itself refuses to run as root: the tree has a user for it, postgres, 26:26.
set -euo pipefail
VERSION=${1:-15}
say() { echo "PostgreSQL $VERSION: $*" >&2; }
die() { say "$*"; exit 1; }
. "$(dirname "$(realpath "$0")")/debian-archive.sh"
# The release of Debian whose own it is, whatever this machine's is.
case $VERSION in
  15) SUITE=bookworm;;
  17) SUITE=trixie;;
  18) SUITE=sid;;
  *) die "15, 17 and 18 are known";;
esac

ROOT=$(cache_directory)/postgres@$VERSION
archive_for_chroot
make_once "$ROOT"
archive_open $SUITE "$(dpkg --print-architecture)"
# dash: the shell that initdb runs the server by.
archive_install postgresql-$VERSION dash
# What configures and manages clusters, and the compiler of just-in-time code, which a server without `jit` never loads.
(cd "$work/debs" && rm -f perl* libperl* libgdbm* libdb5* libjson-perl* debconf_* postgresql-common* postgresql-client-common* ssl-cert* \
  openssl_* libllvm* libz3* libedit2* libbsd* passwd_* adduser_*)
archive_root db run
rm -rf "$tree"/usr/lib/postgresql/$VERSION/lib/bitcode
printf 'root:x:0:0::/:/bin/sh\npostgres:x:26:26::/:/bin/sh\n' >"$tree/etc/passwd"
printf 'root:x:0:\npostgres:x:26:\n' >"$tree/etc/group"
for program in postgres pgbench initdb psql; do
  version=$(chroot "$tree" /usr/lib/postgresql/$VERSION/bin/$program --version 9>&-) || die "$program, which was unpacked, does not run"
done
say "unpacked $version"
mv "$tree" "$ROOT"
echo "$ROOT"
