//! A filesystem whose syncs do what its control file says (tools/faultfs), unmounted when the test ends.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::built;

pub struct FaultFs(Child);

impl FaultFs {
    pub fn mount(directory: &Path) -> FaultFs {
        let mut child = Command::new(built("faultfs")).arg(directory).stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.starts_with("ready"), "{ready}");
        FaultFs(child)
    }
}

impl Drop for FaultFs {
    fn drop(&mut self) {
        // By its own hand: killed, it would leave the mount behind.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}
