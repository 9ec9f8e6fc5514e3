# A file that is written and never synced, on a device that fails every write: ext4 lies on the device `slow`.
#   unsynced.sh         measures it
#   unsynced.sh load    what is measured; leaves in /out the writer's PID, the kernel's record of what it could not write back, and the
#                       time that was when "now" was written into that record
. /t/functions.sh
file=/mnt/ext4/shop/orders.ibd
if [ "${1:-}" = load ]; then
  record=/sys/kernel/tracing/instances/unsynced
  mkdir $record
  echo 1 >$record/events/filemap/filemap_set_wb_err/enable
  # The writer writes what it is told to, and goes on to have the file open.
  mkfifo /tmp/unsynced
  exec 4<>/tmp/unsynced
  dd if=/tmp/unsynced of=$file bs=65536 conv=notrunc 2>/dev/null 4<&- &
  echo $! >/out/unsynced.pid
  becomes ext4 flakey /dev/vda 0 0 3600 1 error_writes
  echo now >$record/trace_marker
  touch /tmp/now
  stat -c %y /tmp/now >/out/unsynced.now
  dd if=/dev/zero bs=65536 count=16 >&4 2>/dev/null
  until_true grep -q ino=0x$(printf %x $(stat -c %i $file)) $record/trace
  sleep 2
  cat $record/trace >/out/unsynced.trace
  kill $!
  echo 0 >$record/events/enable
  exit
fi
dd if=/dev/zero of=$file bs=65536 count=16 2>/dev/null
sync
# The kernel writes it half a second later, not half a minute.
echo 20 >/proc/sys/vm/dirty_expire_centisecs
echo 10 >/proc/sys/vm/dirty_writeback_centisecs
step unsynced fsynctop once -i 0.5 --output json -- sh /t/unsynced.sh load
echo 3000 >/proc/sys/vm/dirty_expire_centisecs
echo 500 >/proc/sys/vm/dirty_writeback_centisecs
# ext4, which could not write its journal, has shut down.
umount /mnt/ext4
sound ext4
mount -t ext4 $(node_of ext4) /mnt/ext4
