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
[ "$(id -u)" = 0 ] || die "unpacking servers that run in a chroot needs root; use sudo"
command -v dpkg >/dev/null || die "cannot be fetched: dpkg is not installed; this works on Debian, Ubuntu and their relatives"
make_once "$ROOT"
archive_open $SUITE "$(dpkg --print-architecture)"
archive apt-get -qq -y --no-install-recommends --download-only install etcd-server redis-server rocksdb-tools sqlite3 >&2 ||
  die "cannot be fetched: downloading the packages failed"
# What only scripts at their installation need.
(cd "$work/debs" && rm -f perl* libperl* libgdbm* libdb5* debconf_* passwd_* adduser_* pipexec* lsb-base*)
tree=$work/tree
mkdir -p "$tree"/usr/{bin,sbin,lib,lib64} "$tree"/{dev,tmp,etc,proc}
for directory in bin sbin lib lib64; do ln -s usr/$directory "$tree/$directory"; done
archive_unpack "$tree"
touch "$tree"/dev/{null,zero,random,urandom}   # for whoever starts a server here to mount the real ones over
chmod 1777 "$tree/tmp"
printf 'root:x:0:0::/:/bin/sh\n' >"$tree/etc/passwd"
printf 'root:x:0:\n' >"$tree/etc/group"
ldconfig -r "$tree" 2>/dev/null || true        # the default search path suffices where it cannot run
for program in "etcd --version" "redis-server --version" "sqlite3 --version" "db_bench --version"; do
  version=$(chroot "$tree" /usr/bin/$program 2>&1 9>&- | sed -n 1p) || die "$program, which was unpacked, does not run"
  say "unpacked $version"
done
mv "$tree" "$ROOT"
echo "$ROOT"
