# A real server's throughput under another kernel (tools/bench/src/guest.rs): MariaDB, whose data directory begins as that on the last disk.
. /t/functions.sh
mount_tracefs
mount_debugfs
mkdir -p /tools /var/tmp /mnt/template /usr/share/mysql/english
mv /t/errmsg.sys /usr/share/mysql/english/
mv /t/guest-server.sh /tools/throwaway-server
chmod 755 /tools/throwaway-server
mount -t ext4 -o ro /dev/vdd /mnt/template
cd /
: >/out/bench.err
tail -f /out/bench.err >/dev/console &   # how far it is: it takes minutes
step bench bench --guest --fsynctop /t/fsynctop --directory /mnt/tmpfs --out /out/bench $bench_options server
