# Syncs of exactly known counts: on ext4 and XFS under a server's file names by some threads each, and on a descriptor that is not open.
#   load.sh NAME      leaves what it did in /out/NAME.*.load
. /t/functions.sh
threads=$(threads_of $1)
for filesystem in ext4 xfs; do
  syncgen /mnt/$filesystem --threads $threads --syncs $((120 / threads)) --op fsync,fdatasync --write 512 --names "$NAMES" >/out/$1.$filesystem.load || exit 1
done
syncgen /mnt/tmpfs --syncs 30 --op fsync,fdatasync --bad-fd >/out/$1.bad.load
