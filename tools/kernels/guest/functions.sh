# What the scenarios share. Each step leaves NAME.out, NAME.err and NAME.status in /out.
MODES="fentry tracepoint"
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
  step $measure_name $AS fsynctop --once --output json "$@" -- sh /t/load.sh $measure_name
}
