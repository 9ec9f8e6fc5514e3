# What a host may lack: tracefs, ftrace, BTF, rights. Each is taken away, looked at, and given back.
. /t/functions.sh
mount_disks
chmod -R 777 /mnt /out
gone() { step $1-check $AS fsynctop check --output json; step $1 $AS fsynctop once --output json -- true; }

measure no-tracefs --attach tracepoint
step no-tracefs-mounts grep tracefs /proc/mounts
mount_tracefs
mount_debugfs

echo 0 >/proc/sys/kernel/ftrace_enabled
step no-ftrace-check fsynctop check --output json
measure no-ftrace
step no-ftrace-fentry fsynctop once --attach fentry -- true
echo 1 >/proc/sys/kernel/ftrace_enabled

mount -t tmpfs empty /sys/kernel/btf
gone no-btf
umount /sys/kernel/btf

with -all
gone no-capabilities
chmod -R 777 /mnt
with +bpf,+perfmon
step bpf-perfmon-check $AS fsynctop check --output json
measure bpf-perfmon
step bpf-perfmon-tracepoint $AS fsynctop once --attach tracepoint -- true
with $MINIMUM
step perf-paranoid-check $AS fsynctop check --output json
step perf-paranoid $AS fsynctop once --attach tracepoint -- true
echo 2 >/proc/sys/kernel/perf_event_paranoid   # Debian's is 3, which takes more than CAP_PERFMON
step minimum-check $AS fsynctop check --output json
for mode in $MODES; do measure minimum-$mode --attach $mode; done
explain ext4 minimum-explain
. /t/other-user.sh
