# The user of the exporter, the same that sysusers.d/fsynctop.conf describes: not every rpm makes users from there.
getent group fsynctop >/dev/null || groupadd -r fsynctop || exit 1
getent passwd fsynctop >/dev/null ||
  useradd -r -g fsynctop -d / -M -s /sbin/nologin -c 'fsynctop exporter' fsynctop || exit 1
