# What `fsynctop calibrate` keeps goes with the package. A recording stays: it may be the evidence of an incident. The user stays:
# files elsewhere could belong to it.
# The package cannot own directories (cargo-generate-rpm 0.21 fails at them), so empty ones are removed here.
if [ "$1" = 0 ]; then
  rm -f /var/lib/fsynctop/* 2>/dev/null || :
  rmdir /var/lib/fsynctop/recording /var/lib/fsynctop 2>/dev/null || :
  doc=/usr/share/doc/fsynctop
  rmdir $doc/*/*/* $doc/*/* $doc/* $doc /usr/share/licenses/fsynctop /etc/fsynctop 2>/dev/null || :
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || :
  if [ "$1" != 0 ]; then systemctl try-restart fsynctop-exporter.service || :; fi
fi
