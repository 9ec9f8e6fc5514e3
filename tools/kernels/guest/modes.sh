# The toolkit as a whole on one kernel: what it says of it, exact counts in each mode, and syncs that hang.
. /t/functions.sh
mount_tracefs
mount_debugfs
# ext4 lies on a device that can be suspended.
dmsetup --noudevsync --noudevrules create slow --table "0 131072 linear /dev/vda 0"
mount_disks /dev/dm-0

step check fsynctop check
step check-json fsynctop check --output json
for mode in $MODES; do measure $mode --attach $mode --by thread; done
measure auto
# Where writes are not watched, the durable ones reach the filesystem outside of the watched calls.
for filesystem in ext4 xfs; do
  step unwatched-$filesystem fsynctop once --writes off --output json -- sh -c "syncgen /mnt/$filesystem --dsync --write 64 --syncs 12 --names durable >/out/unwatched-$filesystem.load"
done
# Durable writes by each call and failures of others, in each mode; and what is asked for in rings and of libaio.
writes=odsync-write,odsync-pwrite,odsync-writev,odsync-pwritev,odsync-pwritev2,osync-pwrite,rwf-dsync,rwf-sync,rwf-bad-descriptor
writes=$writes,odsync-append,odsync-empty,odsync-short,odsync-fault,odsync-read-only,plain,plain-fault,plain-read-only
rings=ring-fsync,ring-fdatasync,ring-sync-file-range,ring-odsync,ring-rwf-dsync,ring-short,ring-plain,ring-plain-fault,ring-polled,ring-registered,ring-linked
# All writes, and what of them no sync has covered.
all=plain,plain-fault,sendfile,copy-file-range,splice,fallocate,odsync-write,written
aio=aio-fsync,aio-fdatasync,aio-pgetevents,aio-batch,aio-partial,aio-no-room,aio-odsync,aio-odsync-vector,aio-odsync-direct,aio-rwf-dsync
aio=$aio,aio-short,aio-fault,aio-read-only,aio-plain,aio-plain-fault,aio-plain-read-only
for filesystem in ext4 xfs; do
  for mode in $MODES; do
    if [ "$mode" = "${without:-}" ]; then continue; fi
    step aio-$mode-$filesystem fsynctop once --attach $mode --output json -- sh -c "syncgen /mnt/$filesystem --ways $aio --syncs 12 >/out/aio-$mode-$filesystem.load"
    step writes-$mode-$filesystem fsynctop once --attach $mode --output json -- sh -c "syncgen /mnt/$filesystem --ways $writes --syncs 12 >/out/writes-$mode-$filesystem.load"
  done
  for mode in $MODES; do
    if [ "$mode" = "${without:-}" ]; then continue; fi
    step unsynced-$mode-$filesystem fsynctop once --writes all --attach $mode --output json -- sh -c "syncgen /mnt/$filesystem --ways $all --syncs 12 >/out/unsynced-$mode-$filesystem.load"
  done
  step rings-$filesystem fsynctop once --ops fsync,fdatasync,sync_file_range --output json -- sh -c "syncgen /mnt/$filesystem --ways $rings --syncs 12 >/out/rings-$filesystem.load"
done
# From the kernel's command line: the check of every commit ends here.
if [ -n "${quick:-}" ]; then exit 0; fi
ops=fsync,fdatasync,sync_file_range,msync,syncfs,sync
step ops fsynctop once --output json --ops $ops -- sh -c "syncgen /mnt/ext4 --op $ops --syncs 12 --write 64 >/out/ops.load"

# Where the time of a server's syncs goes, and what the filesystem's journal does meanwhile.
for filesystem in ext4 xfs; do explain $filesystem explain-$filesystem; done

# A sync that hangs, seen by one who was there when it began, by one who came later, and without tracing. What hangs are the pages that
# were dirtied before the device was suspended: a write could hang in its turn.
for mode in $MODES; do
  # From the kernel's command line: nobody can see it in a mode that cannot be attached.
  if [ "$mode" = "${without:-}" ]; then continue; fi
  mkfifo /tmp/$mode.go
  syncgen /mnt/ext4 --comm mysqld --syncs 1 --op fdatasync --names "$NAMES" --wait <>/tmp/$mode.go >/out/hung-$mode.load &
  until_true grep -q ready /out/hung-$mode.load
  dmsetup --noudevsync suspend --noflush --nolockfs slow
  step hung-$mode fsynctop once --output json --attach $mode --comm mysqld -- sh /t/begin.sh $! /tmp/$mode.go
  step hung-before-$mode fsynctop once --output json --attach $mode --comm mysqld -- usleep 200000
  step stuck-$mode fsynctop stuck --output json --comm mysqld
  step resumed-$mode fsynctop once --output json --attach $mode --comm mysqld -- sh /t/resume.sh /out/hung-$mode.load
  # Where nothing could be attached, nobody has done it.
  dmsetup --noudevsync resume slow
  wait $!
done

sh /t/unsynced.sh
# From the kernel's command line.
[ -z "${faults:-}" ] || sh /t/faults.sh
