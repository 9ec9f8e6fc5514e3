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
[ "$(id -u)" = 0 ] || die "unpacking a server that runs in a chroot needs root; use sudo"
command -v dpkg >/dev/null || die "cannot be fetched: dpkg is not installed; this works on Debian, Ubuntu and their relatives"
make_once "$ROOT"
archive_open $SUITE "$(dpkg --print-architecture)"
archive apt-get -qq -y --no-install-recommends --download-only install valkey-server >&2 ||
  die "cannot be fetched: downloading valkey-server failed"
# What the package's scripts would use.
(cd "$work/debs" && rm -f adduser_* passwd_* perl* libperl* lsb-base_* procps_* openssl_* debconf_*)
tree=$work/tree
mkdir -p "$tree"/usr/{bin,sbin,lib,lib64} "$tree"/{dev,tmp,etc,run}
for directory in bin sbin lib lib64; do ln -s usr/$directory "$tree/$directory"; done
archive_unpack "$tree"
touch "$tree"/dev/{null,zero,random,urandom}   # for whoever starts a server here to mount the real ones over
chmod 1777 "$tree/tmp"
ldconfig -r "$tree" 2>/dev/null || true        # the default search path suffices where it cannot run
version=$(chroot "$tree" /usr/bin/valkey-server --version 9>&-) || die "valkey-server, which was unpacked, does not run"
say "unpacked $version"
mv "$tree" "$ROOT"
echo "$ROOT"
