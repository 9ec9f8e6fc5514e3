# What the scenarios share. Each step leaves NAME.out, NAME.err and NAME.status in /out.
# $MODES, the modes to measure, and $one_by_one, those in which this kernel skips programs, are on the kernel's command line.
NAMES='#innodb_redo/#ib_redo7,binlog.000001,shop/orders.ibd,undo_001'

step() {
  step_name=$1; shift
  "$@" >/out/$step_name.out 2>/out/$step_name.err
  echo $? >/out/$step_name.status
}

mount_disks() {
  mount -t ext4 ${1:-/dev/vda} /mnt/ext4
  mount -t xfs /dev/vdb /mnt/xfs
  for filesystem in ext4 xfs tmpfs; do mkdir -p "/mnt/$filesystem/#innodb_redo" /mnt/$filesystem/shop; done
}

mount_tracefs() { mount -t tracefs tracefs /sys/kernel/tracing; }
mount_debugfs() { mount -t debugfs debugfs /sys/kernel/debug; }

# How many threads the load of a measurement has, by the mode that its name ends in. Where the kernel skips programs, counts are exact only as
# long as no thread is preempted in one while another syncs.
threads_of() {
  case " ${one_by_one:-} " in
    *" ${1##*-} "*) echo 1;;
    *) echo 3;;
  esac
}

# The devices below ext4 and XFS, where the device mapper made them.
device_of() { case $1 in ext4) echo slow;; xfs) echo slow-xfs;; esac; }
node_of() { case $1 in ext4) echo /dev/dm-0;; xfs) echo /dev/dm-1;; esac; }   # in the order of their creation
disk_of() { case $1 in ext4) echo /dev/vda;; xfs) echo /dev/vdb;; esac; }
sectors_of() { cat /sys/block/${1#/dev/}/size; }

# Puts another table under a filesystem that is in use: becomes FILESYSTEM TARGET ARGUMENT...
becomes() {
  device=$(device_of $1) sectors=$(sectors_of $(disk_of $1)); shift
  dmsetup --noudevsync suspend --noflush --nolockfs $device
  dmsetup load $device --table "0 $sectors $*"
  dmsetup --noudevsync resume $device
}

sound() { becomes $1 linear $(disk_of $1) 0; }

# From now on $AS runs a program as a user who has some capabilities: with +CAPABILITY,...
with() { AS="/t/setpriv --reuid=1000 --regid=1000 --clear-groups --inh-caps=$1 --ambient-caps=$1"; }   # by its path: busybox's own can do less
MINIMUM=+bpf,+perfmon,+dac_read_search,+sys_ptrace,+syslog

# Waits, for a minute at most, until a command succeeds.
until_true() {
  tries=0
  until "$@" 2>/dev/null; do
    tries=$((tries + 1))
    if [ $tries -gt 600 ]; then echo "waited in vain for: $*" >&2; return 1; fi
    usleep 100000
  done
}

# Measures the exact load of load.sh, by way of $AS: measure NAME OPTION...
measure() {
  measure_name=$1; shift
  step $measure_name $AS fsynctop once --output json "$@" -- sh /t/load.sh $measure_name
}

# Takes the time of a server's syncs apart while three of its threads sync, by way of $AS: explain FILESYSTEM NAME
explain() {
  mkfifo /tmp/$2.go
  syncgen /mnt/$1 --comm mysqld --threads 3 --syncs 1000000 --op fsync,fdatasync --write 512 --append --names "$NAMES" --wait <>/tmp/$2.go >/dev/null &
  # Until then it is no server.
  while kill -0 $! && [ "$(cat /proc/$!/comm)" != mysqld ]; do usleep 100000; done
  echo go >/tmp/$2.go
  step $2 $AS fsynctop explain -d 4 --output json
  { kill $!; wait $!; } 2>/dev/null   # the shell would say that it was terminated
}
