# A recording that is being made on ext4 until the power fails: the load is on a tmpfs, so nothing but the recorder writes to the disk.
. /t/functions.sh
mount_tracefs
mount_debugfs
mount_disks
syncgen /mnt/tmpfs --seconds 3600 --threads 2 --comm mysqld >/dev/null &
fsynctop record --comm mysqld --output-directory /mnt/ext4/recording >/dev/null 2>/out/record.err &
until_true test -s /mnt/ext4/recording/all-00000000-plain.fst
echo begun >/dev/console
wait
