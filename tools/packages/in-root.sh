# A throw-away copy of a cached root (tools/packages/root), for the scripts that try packages in one. To be sourced.
#   in_namespace "$0" "$@"      goes on in a mount namespace of its own: nothing that is mounted from then on outlives the script
#   root_open SUITE             $root: an overlay over it, with this machine's /proc, /sys and /dev; $work goes when the script ends
#   inside COMMAND ...          runs it there
#   ok TEXT                     says what was found to hold
#   paths                       what there is in $root, but for logs, caches and what dpkg and rpm keep for themselves
# A failure ends the script through its function `die`.

in_namespace() {
  [ "$(id -u)" = 0 ] || die "needs root, for mounts and chroot; use sudo"
  [ -z "${IN_NAMESPACE:-}" ] || return 0
  # A slave: what is mounted on this machine meanwhile is seen, and nothing goes back.
  IN_NAMESPACE=yes exec unshare --mount --propagation slave "$@"
}

root_open() {
  local base
  base=$("$HERE/root" "$1")
  work=$(mktemp -d /var/tmp/fsynctop-packages.XXXXXX)
  trap 'trap "" INT TERM HUP; leave; umount --recursive --lazy "$root"; rm -rf --one-file-system "$work"' EXIT
  trap 'exit 130' INT TERM HUP
  root=$work/root
  mkdir "$root" "$work"/{upper,inner}
  mount -t overlay overlay -o "lowerdir=$base,upperdir=$work/upper,workdir=$work/inner" "$root"
  mount --rbind /proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mount --rbind /dev "$root/dev"
  mount -t tmpfs -o mode=755 tmpfs "$root/run"
}

# For a script to replace: what it has started ends.
leave() { :; }

inside() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive chroot "$root" "$@" </dev/null; }

ok() { echo "ok     $NAME: $*"; }

# Quiet, unless it fails.
run() {
  "$@" >"$work/output" 2>&1 || { local status=$?; cat "$work/output" >&2; die "failed with status $status: $*"; }
}

paths() {
  (cd "$root" && find . -xdev \( -path ./var/log -o -path ./var/cache -o -path ./var/lib/dpkg -o -path ./var/lib/rpm -o -path ./run -o -path ./tmp \
    -o -path ./var/lib/apt -o -path ./root/.cache \) -prune -o -print | sort)
}
