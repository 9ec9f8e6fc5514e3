# Faults of the devices below ext4 and XFS, by the device mapper: writes that fail, that take long, and that hang and go on.
#   faults.sh                     measures them all in each mode; ext4 lies on the device `slow` already
#   faults.sh LOAD NAME           what is measured: failing, delayed or stalled; leaves what it did in /out/NAME.*.load
. /t/functions.sh

# Half of the syncs are made on a sound device, half on one that fails every write.
failing() {
  for filesystem in ext4 xfs; do
    load=/out/$1.$filesystem.load
    mkfifo /tmp/$1.$filesystem
    syncgen /mnt/$filesystem --threads $(threads_of $1) --syncs 96 --pause-after 48 --keep-going --op fsync,fdatasync --write 512 --names "$NAMES" \
      <>/tmp/$1.$filesystem >$load &
    until_true grep -q paused $load
    becomes $filesystem flakey $(disk_of $filesystem) 0 0 3600 1 error_writes
    echo go on >/tmp/$1.$filesystem
    wait $!
  done
}

# A filesystem that could not write its journal has shut down: it comes back as after a crash.
repair() {
  for filesystem in ext4 xfs; do
    umount /mnt/$filesystem
    sound $filesystem
    mount -t $filesystem $(node_of $filesystem) /mnt/$filesystem
  done
}

# Below ext4 the flush of the device's cache takes 60 ms, below XFS every write.
delayed() {
  becomes ext4 delay /dev/vda 0 0 /dev/vda 0 0 /dev/vda 0 60
  becomes xfs delay /dev/vdb 0 0 /dev/vdb 0 60
  for filesystem in ext4 xfs; do
    syncgen /mnt/$filesystem --syncs 12 --latency --op fsync,fdatasync --write 512 --names "${NAMES%%,*}" >/out/$1.$filesystem.load
    sound $filesystem
  done
}

# What hangs are the pages that were dirtied before the device was suspended: a write could hang in its turn.
stalled() {
  mkfifo /tmp/$1.go
  syncgen /mnt/xfs --syncs 1 --latency --op fdatasync --names "${NAMES%%,*}" --wait <>/tmp/$1.go >/out/$1.xfs.load &
  until_true grep -q ready /out/$1.xfs.load
  dmsetup --noudevsync suspend --noflush --nolockfs slow-xfs
  sh /t/begin.sh $! /tmp/$1.go
  usleep 800000
  dmsetup --noudevsync resume slow-xfs
  wait $!
}

if [ $# = 2 ]; then
  $1 $2
  exit
fi
umount /mnt/xfs
dmsetup --noudevsync --noudevrules create slow-xfs --table "0 $(sectors_of /dev/vdb) linear /dev/vdb 0"
mount -t xfs $(node_of xfs) /mnt/xfs
for mode in $MODES; do
  step failing-$mode fsynctop once --output json --attach $mode -- sh /t/faults.sh failing failing-$mode
  repair
  step delayed-$mode fsynctop once --output json --attach $mode -- sh /t/faults.sh delayed delayed-$mode
  step stalled-$mode fsynctop once -i 0.2 --output json --attach $mode -- sh /t/faults.sh stalled stalled-$mode
done
