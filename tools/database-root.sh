#!/bin/bash
# Unpacks a database server of another release into a root tree of its own, from the distribution's packages alone;
# nothing is installed on this machine.
#   database-root.sh ROOT SUITE PACKAGE...
#   database-root.sh ROOT sid    mysql-server-core mysql-client-core        MySQL 9.7
#   database-root.sh ROOT trixie mariadb-server-core mariadb-client-core    MariaDB 11.8
# ROOT (about 330 MB for MySQL) holds the server, its client and every library they need, the C library included, so it
# runs chrooted on any kernel. The mirror and the distribution are those of this machine's own apt. ROOT appears only
# when it is complete, and several who ask for it at once wait for one download. Needs root, for the chroot.
set -euo pipefail
say() { echo "database-root: $*" >&2; }
die() { say "$*"; exit 1; }
[ $# -ge 3 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
ROOT=$(realpath -m "$1") SUITE=$2; shift 2
[ "$(id -u)" = 0 ] || die "unpacking a server that runs in a chroot needs root; try: sudo $0 …"
for tool in apt-get dpkg-deb tar flock; do
  command -v $tool >/dev/null || die "$tool is not installed; this works on Debian, Ubuntu and their relatives"
done

mkdir -p "$(dirname "$ROOT")"
exec 9>"$ROOT.lock"
flock 9
[ ! -e "$ROOT" ] || exit 0

# The mirror is the one that carries this machine's own release; security archives carry no other.
. /etc/os-release
case " $ID ${ID_LIKE:-} " in
  *" ubuntu "*) distribution=ubuntu keyring=/usr/share/keyrings/ubuntu-archive-keyring.gpg suites="$SUITE $SUITE-updates" component="main universe";;
  *" debian "*) distribution=debian keyring=/usr/share/keyrings/debian-archive-keyring.gpg suites=$SUITE component=main;;
  *) die "$PRETTY_NAME is neither Debian nor Ubuntu: no packages to unpack";;
esac
targets=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null || true)
mirror=$(awk -v codename="${VERSION_CODENAME:-sid}" -v distribution="/$distribution(-ports)?/?$" '
  $1 == codename && !own { own = $2 }   $2 ~ distribution && !any { any = $2 }   END { print own ? own : any }' <<<"$targets")
[ -n "$mirror" ] || die "found no $distribution mirror in this machine's apt sources (apt-get indextargets lists them)"
[ -e "$keyring" ] || die "$keyring is missing; install $distribution-archive-keyring (Debian) or ubuntu-keyring (Ubuntu)"

work=$(mktemp -d "$ROOT.partial.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
apt=$work/apt tree=$work/tree
mkdir -p "$apt"/{lists/partial,debs/partial,cache} "$tree"
: >"$apt/status"                    # nothing counts as installed: apt downloads the whole closure, libc6 included
for suite in $suites; do echo "deb [signed-by=$keyring] $mirror $suite $component"; done >"$apt/sources.list"
apt_get() {
  apt-get -qq -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null -o APT::Default-Release= \
    -o Dir::State::Lists="$apt/lists" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" \
    -o Dir::Cache::archives="$apt/debs" -o Acquire::Languages=none -o APT::Sandbox::User=root "$@" 9>&-
}
say "fetching $* of $SUITE from $mirror (about 90 MB, once)"
apt_get update
apt_get -y --no-install-recommends --download-only install "$@"
mkdir -p "$tree"/usr/{bin,sbin,lib,lib64} "$tree"/{dev,tmp,etc,db,run,var/lib}
for directory in bin sbin lib lib64; do ln -s usr/$directory "$tree/$directory"; done
for package in "$apt"/debs/*.deb; do
  # The server needs neither Perl nor the means to configure packages.
  case ${package##*/} in perl*|libperl*|libdb5*|libgdbm*|libc-gconv*|passwd_*|debconf_*) continue;; esac
  dpkg-deb --fsys-tarfile "$package" |
    tar -x --keep-directory-symlink -C "$tree" --exclude='./usr/share/doc*' --exclude='./usr/share/man*' --exclude='./usr/share/locale*'
done
touch "$tree"/dev/{null,zero,random,urandom}   # for whoever starts a server here to mount the real ones over
chmod 1777 "$tree/tmp"
printf 'root:x:0:0::/:/bin/sh\n' >"$tree/etc/passwd"
printf 'root:x:0:\n' >"$tree/etc/group"
ldconfig -r "$tree" 2>/dev/null || true        # the default search path suffices where it cannot run
server=/usr/sbin/mysqld
[ -e "$tree$server" ] || server=/usr/sbin/mariadbd
say "unpacked $(chroot "$tree" $server --no-defaults --version 9>&-)"
mv "$tree" "$ROOT"
