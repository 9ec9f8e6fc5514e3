#!/bin/bash
# Unpacks etcd, Redis, RocksDB's db_bench and SQLite into a root tree of their own, from Debian's packages. Nothing is installed on this
# machine, where some of the packages would start a server.
#   engines-root.sh          prints where it lies: engines in the cache (tools/debian-archive.sh says where that is), 120 MB
# Needs root, for the chroot.
set -euo pipefail
say() { echo "etcd, Redis, RocksDB, SQLite: $*" >&2; }
die() { say "$*"; exit 1; }
. "$(dirname "$(realpath "$0")")/debian-archive.sh"
# Debian's own release of them, whatever this machine's is.
SUITE=bookworm

ROOT=$(cache_directory)/engines
archive_for_chroot
make_once "$ROOT"
archive_open $SUITE "$(dpkg --print-architecture)"
archive_install etcd-server redis-server rocksdb-tools sqlite3
# What only scripts at their installation need.
(cd "$work/debs" && rm -f perl* libperl* libgdbm* libdb5* debconf_* passwd_* adduser_* pipexec* lsb-base*)
archive_root proc
printf 'root:x:0:0::/:/bin/sh\n' >"$tree/etc/passwd"
printf 'root:x:0:\n' >"$tree/etc/group"
for program in "etcd --version" "redis-server --version" "sqlite3 --version" "db_bench --version"; do
  version=$(chroot "$tree" /usr/bin/$program 2>&1 9>&- | sed -n 1p) || die "$program, which was unpacked, does not run"
  say "unpacked $version"
done
mv "$tree" "$ROOT"
echo "$ROOT"
