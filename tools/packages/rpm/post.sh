# Enabled only where the distribution's or the administrator's presets say so.
if [ "$1" = 1 ] && command -v systemctl >/dev/null; then
  systemctl --no-reload preset fsynctop-exporter.socket fsynctop-exporter.service >/dev/null 2>&1 || :
fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload || :; fi
