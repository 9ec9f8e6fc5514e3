# More threads than processors on a kernel that preempts, while someone reads every 200 ms: at the rate of a journal, and saturated.
. /t/functions.sh
mount_tracefs
mount_debugfs
mount_disks
step check fsynctop check --output json
for mode in $MODES; do
  for place in ext4 tmpfs; do
    step $place-$mode fsynctop once -i 0.2 --output json --attach $mode -- sh -c \
      "syncgen /mnt/$place --threads 16 --seconds 4 --latency --files 4 --op fsync,fdatasync --write 64 >/out/$place-$mode.load"
  done
done
# With the fewest capabilities, and perf events refused to them, as Debian has it.
chmod -R 777 /mnt /out
with +bpf,+perfmon
step few-check $AS fsynctop check --output json
case $MODES in *kprobe*) measure few;; esac
