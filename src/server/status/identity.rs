//! Whether the server at the other end of a connection is the one that is traced.

use std::path::{Path, PathBuf};

use crate::linux::rooted::Root;
use crate::model::Server;

/// Whether two paths lead to one directory. Either may be written with a symlink, which is one of the
/// server's own root.
pub(crate) fn same_directory(server: &Server, theirs: &Path, ours: &Path) -> bool {
    let plain = |path: &Path| -> PathBuf { path.components().collect() };
    let root = Root::of_process(Path::new("/proc"), server.id.pid).ok();
    let real = |path: &Path| root.as_ref()?.canonical(path);
    let theirs_real = real(theirs);
    plain(theirs) == plain(ours) || theirs_real.is_some() && theirs_real == real(ours)
}
