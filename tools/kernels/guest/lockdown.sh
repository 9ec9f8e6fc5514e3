# A kernel that lets nobody read its memory.
. /t/functions.sh
mount_tracefs
step check fsynctop check --output json
step auto fsynctop once --output json -- true
for mode in $MODES; do step $mode fsynctop once --output json --attach $mode -- true; done
