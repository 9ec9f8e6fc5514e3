//! Needs root, to be another user: who asks for the last minutes believes only root, itself, and those whom
//! root has given the socket's directory.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::common::needs;
use fsynctop::recording::remote::{RemoteError, fetch};
use fsynctop::recording::{History, Options};
use rustix::process::Uid;

const STRANGER: u32 = 65534;

/// What `fetch` gets from a listener of another user in this directory, which is then that user's.
fn fetched_from_a_stranger(directory: &Path) -> Result<History, RemoteError> {
    chown(directory, Some(STRANGER), Some(STRANGER)).unwrap();
    std::fs::set_permissions(directory, PermissionsExt::from_mode(0o755)).unwrap();
    let path = directory.join("exporter.sock");
    let (listens, listening) = std::sync::mpsc::channel();
    let socket = path.clone();
    // It waits for a client until the test program ends.
    std::thread::spawn(move || {
        let stranger = Uid::from_raw(STRANGER);
        rustix::thread::set_thread_res_uid(stranger, stranger, stranger).unwrap();
        let listener = UnixListener::bind(&socket).unwrap();
        listens.send(()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        if BufReader::new(&stream).read_line(&mut String::new()).is_ok_and(|read| read > 0) {
            let mut text = Vec::new();
            History::new(Options::default()).write(&mut text).unwrap();
            let _ = stream.write_all(&text);
        }
    });
    listening.recv().unwrap();
    fetch(&path)
}

#[test]
#[ignore = "needs root"]
fn a_stranger_in_a_directory_that_anybody_could_have_made_is_not_believed() {
    needs(&[]);
    // In /tmp, to which everybody may write.
    let directory = tempfile::tempdir_in("/tmp").unwrap();
    let error = fetched_from_a_stranger(directory.path()).unwrap_err();
    assert!(matches!(error, RemoteError::Stranger { user: STRANGER, .. }), "{error}");
    assert!(error.to_string().contains("user 65534"), "{error}");
}

#[test]
#[ignore = "needs root"]
fn a_service_with_a_user_of_its_own_is_believed_where_root_made_its_directory() {
    needs(&["/run"]);
    let directory = tempfile::tempdir_in("/run").unwrap();
    assert!(fetched_from_a_stranger(directory.path()).unwrap().is_empty());
}
