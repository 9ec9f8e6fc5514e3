# What a host may lack: tracefs, ftrace, BTF, rights. Each is taken away, looked at, and given back.
. /t/functions.sh
mount_disks
chmod -R 777 /mnt /out
gone() { step $1-check $AS fsynctop check --json; step $1 $AS fsynctop --once --output json -- true; }

measure no-tracefs --attach tracepoint
step no-tracefs-mounts grep tracefs /proc/mounts
mount_tracefs
mount_debugfs

echo 0 >/proc/sys/kernel/ftrace_enabled
step no-ftrace-check fsynctop check --json
measure no-ftrace
step no-ftrace-fentry fsynctop --once --attach fentry -- true
echo 1 >/proc/sys/kernel/ftrace_enabled

mount -t tmpfs empty /sys/kernel/btf
gone no-btf
umount /sys/kernel/btf

AS="/t/setpriv --reuid=1000 --regid=1000 --clear-groups"   # by its path: busybox's own, of which it is fond, can do less
gone no-capabilities

with() { AS="/t/setpriv --reuid=1000 --regid=1000 --clear-groups --inh-caps=$1 --ambient-caps=$1"; }
chmod -R 777 /mnt
with +bpf,+perfmon
step bpf-perfmon-check $AS fsynctop check --json
measure bpf-perfmon
step bpf-perfmon-tracepoint $AS fsynctop --once --attach tracepoint -- true
with +bpf,+perfmon,+dac_read_search,+sys_ptrace,+syslog
step perf-paranoid-check $AS fsynctop check --json
step perf-paranoid $AS fsynctop --once --attach tracepoint -- true
echo 2 >/proc/sys/kernel/perf_event_paranoid   # Debian's is 3, which takes more than CAP_PERFMON
step minimum-check $AS fsynctop check --json
for mode in $MODES; do measure minimum-$mode --attach $mode; done
AS=
