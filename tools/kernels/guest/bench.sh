# The parts of the bench that need another kernel than the host's (tools/bench/src/guest.rs).
. /t/functions.sh
mount_tracefs
mount_debugfs
step bench bench --guest --fsynctop /t/fsynctop --directory /mnt/tmpfs --out /out/bench $bench_options sync getppid instructions
