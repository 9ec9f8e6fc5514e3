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
# see NAME MODE: what is measured of the load, by way of $AS
see() {
  step $1 $AS fsynctop once --output json --attach $2 -- sh /t/filesystems.sh load
  for file in one two first second; do mv /out/$file.load /out/$1.$file.load; done
}
AS=
for mode in $MODES; do see $mode $mode; done
# As the shipped unit runs: libbpf may not ask for the types of modules then (BPF_BTF_GET_NEXT_ID).
chmod -R 777 /mnt /out
echo 2 >/proc/sys/kernel/perf_event_paranoid
with $MINIMUM
for mode in $MODES; do see minimum-$mode $mode; done
