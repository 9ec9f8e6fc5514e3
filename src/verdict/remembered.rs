//! The failures that are not over, in a form that outlives the process that saw them: an exporter that is
//! restarted or upgraded goes on with those of the one before.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::model::{Op, Role, ServerId, Target};

/// Servers that are remembered.
pub const MAX_SERVERS: usize = 256;
/// A longer path is left out: the file is known by its identity.
pub const MAX_PATH: usize = 1_024;
/// Two start times of one process may differ by this: /proc has clock ticks of 10 ms.
const TICK: Duration = Duration::from_millis(10);

/// The failures of all servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Remembered {
    pub servers: Vec<OfServer>,
}

/// Those of one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfServer {
    pub server: ServerId,
    /// When it began to be failing.
    pub since: SystemTime,
    pub failures: Vec<OfFile>,
}

/// The last failure of one file; or, where the target is no file, of all others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfFile {
    pub target: Target,
    pub role: Role,
    /// Raw bytes.
    pub path: Option<Vec<u8>>,
    pub op: Op,
    pub errno: i32,
    pub at: SystemTime,
}

impl OfServer {
    /// A pid alone may have been given to another process since.
    pub fn is(&self, server: ServerId) -> bool {
        let apart = self.server.start_ns.abs_diff(server.start_ns);
        self.server.pid == server.pid && u128::from(apart) < TICK.as_nanos()
    }
}
