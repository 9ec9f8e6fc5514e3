# Filesystems that are modules of the kernel, so that what the programs read of them is described apart from the kernel: two files of one
# inode number in two subvolumes of btrfs, and two that have had one inode number one after the other below an overlay.
#   filesystems.sh load      what is measured; leaves what it did in /out/*.load
. /t/functions.sh
if [ "${1:-}" = load ]; then
  syncs=2
  for subvolume in one two; do
    syncgen /mnt/btrfs/$subvolume --syncs $syncs --op fsync --names orders.ibd >/out/$subvolume.load || exit 1
    syncs=$((syncs + 3))
  done
  for file in first second; do
    syncgen /mnt/overlay --syncs $syncs --op fsync --names $file.ibd >/out/$file.load || exit 1
    rm /mnt/overlay/$file.ibd
    syncs=$((syncs + 3))
  done
  exit
fi
mount_tracefs
mount_disks
mkdir -p /mnt/btrfs /mnt/overlay /mnt/ext4/lower /mnt/ext4/upper /mnt/ext4/work
mount -t btrfs /dev/vdd /mnt/btrfs
for subvolume in one two; do btrfs subvolume create /mnt/btrfs/$subvolume >/dev/null; done
mount -t overlay -o lowerdir=/mnt/ext4/lower,upperdir=/mnt/ext4/upper,workdir=/mnt/ext4/work overlay /mnt/overlay
ls /sys/kernel/btf >/out/described
for mode in $MODES; do
  step $mode fsynctop once --output json --attach $mode -- sh /t/filesystems.sh load
  for file in one two first second; do mv /out/$file.load /out/$mode.$file.load; done
done
