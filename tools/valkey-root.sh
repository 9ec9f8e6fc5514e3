#!/bin/bash
# Unpacks Valkey 8.1 into a root tree of its own, from Debian's packages. Nothing is installed on this machine, whose own release of Debian
# may have none, and where the package would start a server.
#   valkey-root.sh            prints where it lies: valkey@8.1 in the cache (tools/debian-archive.sh says where that is), 40 MB
# Needs root, for the chroot.
set -euo pipefail
say() { echo "Valkey 8.1: $*" >&2; }
die() { say "$*"; exit 1; }
. "$(dirname "$(realpath "$0")")/debian-archive.sh"
SUITE=trixie VERSION=8.1

ROOT=$(cache_directory)/valkey@$VERSION
archive_for_chroot
make_once "$ROOT"
archive_open $SUITE "$(dpkg --print-architecture)"
archive_install valkey-server
# What the package's scripts would use.
(cd "$work/debs" && rm -f adduser_* passwd_* perl* libperl* lsb-base_* procps_* openssl_* debconf_*)
archive_root run
version=$(chroot "$tree" /usr/bin/valkey-server --version 9>&-) || die "valkey-server, which was unpacked, does not run"
say "unpacked $version"
mv "$tree" "$ROOT"
echo "$ROOT"
