# A server that another user runs, in a directory that nobody else may enter, as it is seen with the minimum of capabilities. Part of
# conditions.sh.
umount /mnt/ext4
dmsetup --noudevsync --noudevrules create slow --table "0 $(cat /sys/block/vda/size) linear /dev/vda 0"
mount -t ext4 /dev/dm-0 /mnt/ext4
data=/mnt/ext4/data
mkdir -p $data/shop "$data/#innodb_redo"
chown -R 999:999 $data
chmod 700 $data
chmod 777 /tmp

# serve NAME ARGUMENT...: a server that waits until a line comes into /tmp/NAME
serve() {
  name=$1; shift
  mkfifo -m 666 /tmp/$name
  /t/setpriv --reuid=999 --regid=999 --clear-groups syncgen $data --comm mysqld --names "$NAMES" --wait "$@" <>/tmp/$name >/out/$name.ext4.load &
  server=$!
  until_true grep -q ready /out/$name.ext4.load
}

serve other-user --threads 3 --syncs 40 --op fsync,fdatasync --write 512 --hold
step other-user-check $AS fsynctop check --output json
step other-user $AS fsynctop once --output json --comm mysqld -- sh -c \
  '. /t/functions.sh; echo go >/tmp/other-user; until_true grep -q calls /out/other-user.ext4.load'
{ kill $server; wait $server; } 2>/dev/null

serve other-user-hangs --syncs 1 --op fdatasync
dmsetup --noudevsync suspend --noflush --nolockfs slow
sh /t/begin.sh $server /tmp/other-user-hangs
step other-user-stuck $AS fsynctop stuck --output json
step other-user-hung $AS fsynctop once --output json --comm mysqld -- usleep 200000
with +bpf,+perfmon
step other-user-stuck-unseen $AS fsynctop stuck --output json
dmsetup --noudevsync resume slow
wait $server
