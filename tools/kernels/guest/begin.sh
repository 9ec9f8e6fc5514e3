# Lets a waiting syncgen begin its fdatasync, and ends when that has not ended for a while: begin.sh PID FIFO
. /t/functions.sh
in_fdatasync() { grep -q '^75 ' /proc/$1/task/*/syscall; }
echo go >$2
until_true in_fdatasync $1 && usleep 200000 && in_fdatasync $1
