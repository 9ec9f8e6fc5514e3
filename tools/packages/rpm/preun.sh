if [ "$1" = 0 ] && command -v systemctl >/dev/null; then
  systemctl --no-reload disable fsynctop-exporter.service fsynctop-exporter.socket >/dev/null 2>&1 || :
  if [ -d /run/systemd/system ]; then systemctl stop fsynctop-exporter.service fsynctop-exporter.socket || :; fi
fi
