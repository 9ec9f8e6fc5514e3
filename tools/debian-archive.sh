# Packages of a Debian release other than this machine's, to be unpacked and not installed: what the scripts share that do so. To be sourced.
#   cache_directory         prints where they are kept: $FSYNCTOP_CACHE, else /var/cache/fsynctop for root and
#                           ${XDG_CACHE_HOME:-~/.cache}/fsynctop for others
#   make_once TREE          TREE appears only when it is complete, and several who ask for it at once wait for one of them. Ends the
#                           script, printing TREE, if it is there; else makes $work, beside it, which goes when the script ends
#   archive_mirror          sets $mirror, which is $DEBIAN_MIRROR, else the one of this machine's own apt, and $keyring
#   archive_open SUITE ARCHITECTURE [OTHER]    an apt of its own for that mirror
#   archive COMMAND ...     apt-get or apt-cache of that; signatures are checked
#   archive_download ...    packages, as apt-get download takes them
#   archive_unpack INTO     what was downloaded
#   archive_for_chroot      ends the script where a tree to run in could not be made; to be asked before anything is fetched
#   archive_install ...     downloads packages with what they depend on
#   archive_root ...        makes a root tree of what was downloaded, in $tree; the arguments are directories that it has besides
# A failure ends the script through its function `die`.

cache_directory() {
  if [ -n "${FSYNCTOP_CACHE:-}" ]; then echo "$FSYNCTOP_CACHE"
  elif [ "$(id -u)" = 0 ]; then echo /var/cache/fsynctop
  else echo "${XDG_CACHE_HOME:-$HOME/.cache}/fsynctop"; fi
}

make_once() {
  mkdir -p "${1%/*}"
  exec 9>"$1.lock"
  flock 9
  if [ -e "$1" ]; then echo "$1"; exit 0; fi
  local tool
  for tool in apt-get dpkg-deb; do
    command -v $tool >/dev/null || die "cannot be fetched: $tool is not installed; this works on Debian, Ubuntu and their relatives"
  done
  work=$(mktemp -d "$1.partial.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  trap 'exit 130' INT TERM HUP
}

archive_mirror() {
  keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  [ -e "$keyring" ] || die "cannot be fetched: $keyring is missing; install debian-archive-keyring"
  # Security archives carry no other release, so only a whole archive will do.
  mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep -E '/debian/?$' | head -n 1 || true)}
  [ -n "$mirror" ] || die "cannot be fetched: this machine's apt sources name no Debian mirror; set DEBIAN_MIRROR to the URL of one"
}

archive_open() {
  suite=$1 architecture=$2
  archive_mirror
  mkdir -p "$work"/apt/{lists/partial,cache} "$work/debs/partial"
  : >"$work/apt/status"       # nothing counts as installed
  echo "deb [arch=$architecture${3:+,$3} signed-by=$keyring] $mirror $suite main" >"$work/apt/sources.list"
  architectures=(-o "APT::Architectures::=$architecture" ${3:+-o "APT::Architectures::=$3"})
  say "fetching it from $mirror $suite, once"
  archive apt-get -qq update >&2 || die "cannot be fetched: apt-get update of $mirror $suite failed"
}

archive() {
  local command=$1; shift
  "$command" -q -o "APT::Architecture=$architecture" "${architectures[@]}" -o APT::Default-Release= -o APT::Sandbox::User=root \
    -o Dir::Etc::SourceList="$work/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::Preferences=/dev/null \
    -o Dir::Etc::PreferencesParts=/dev/null -o Dir::State::Lists="$work/apt/lists" -o Dir::State::status="$work/apt/status" \
    -o Dir::Cache="$work/apt/cache" -o Dir::Cache::archives="$work/debs" -o Acquire::Languages=none "$@" 9>&-
}

archive_download() {
  (cd "$work/debs" && archive apt-get -qq download "$@" >&2) || die "cannot be fetched: downloading $* failed"
}

archive_unpack() {
  mkdir -p "$1"
  local package
  for package in "$work"/debs/*.deb; do
    dpkg-deb --fsys-tarfile "$package" |
      tar -x --keep-directory-symlink -C "$1" --exclude='./usr/share/doc*' --exclude='./usr/share/man*' --exclude='./usr/share/locale*'
  done
}

archive_for_chroot() {
  [ "$(id -u)" = 0 ] || die "unpacking what runs in a chroot needs root; use sudo"
  command -v dpkg >/dev/null || die "cannot be fetched: dpkg is not installed; this works on Debian, Ubuntu and their relatives"
}

archive_install() {
  archive apt-get -qq -y --no-install-recommends --download-only install "$@" >&2 || die "cannot be fetched: downloading $* failed"
}

archive_root() {
  tree=$work/tree
  local directory
  mkdir -p "$tree"/usr/{bin,sbin,lib,lib64} "$tree"/{dev,tmp,etc}
  for directory in "$@"; do mkdir -p "$tree/$directory"; done
  for directory in bin sbin lib lib64; do ln -s usr/$directory "$tree/$directory"; done
  archive_unpack "$tree"
  touch "$tree"/dev/{null,zero,random,urandom}   # for whoever starts a server here to mount the real ones over
  chmod 1777 "$tree/tmp"
  ldconfig -r "$tree" 2>/dev/null || true        # the default search path suffices where it cannot run
}
