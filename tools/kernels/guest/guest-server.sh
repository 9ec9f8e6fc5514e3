#!/bin/sh
# In the place of tools/throwaway-server, which needs more than a guest has: the same two commands, for MariaDB.
#   start mariadb DIR --json --owner=PID --datadir-base=BASE
#   stop --now DIR
set -eu
. /t/functions.sh
case $1 in
  start)
    dir=$3 base=$3
    for option; do
      case $option in --datadir-base=*) base=${option#*=};; esac
    done
    data=$base/throwaway-server
    mkdir -p "$dir"
    cp -a /mnt/template "$data"
    mariadbd --no-defaults --user=root --datadir="$data" --tmpdir=/tmp --socket="$dir/sql.sock" --pid-file="$dir/sql.pid" --skip-networking \
      --log-bin=binlog --server-id=1 --sync-binlog=1 --lc-messages-dir=/usr/share/mysql </dev/null >"$dir/error.log" 2>&1 &
    pid=$!
    until_true grep -q 'ready for connections' "$dir/error.log" || { cat "$dir/error.log" >&2; exit 1; }
    version=$(mariadbd --no-defaults --version | sed -nE 's/.*Ver ([0-9]+(\.[0-9]+)+).*/\1/p')
    echo "{ \"pid\": $pid, \"socket\": \"$dir/sql.sock\", \"version\": \"$version\" }";;
  stop)
    kill -9 $(cat "$3/sql.pid");;
esac
