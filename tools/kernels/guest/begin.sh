# Lets a waiting syncgen begin its fdatasync, and ends when that has not ended for a while: begin.sh PID FIFO
. /t/functions.sh
case $(uname -m) in aarch64) fdatasync=83;; *) fdatasync=75;; esac
in_fdatasync() { grep -q "^$fdatasync " /proc/$1/task/*/syscall; }
echo go >$2
until_true in_fdatasync $1 && usleep 200000 && in_fdatasync $1
