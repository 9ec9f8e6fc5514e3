//! The figures as far as they are there: whether it traces, and which version this is.

use std::sync::Arc;
use std::time::Duration;

use super::source::{Format, Metrics, NotReady};
use crate::live::Live;

pub struct Figures {
    pub live: Arc<Live>,
}

impl Metrics for Figures {
    fn render(&self, _format: Format) -> Result<Vec<u8>, NotReady> {
        let up = u8::from(self.live.fresh(Duration::from_millis(250), Duration::from_secs(3)).is_some());
        let version = env!("CARGO_PKG_VERSION");
        Ok(format!(
            "# HELP fsynctop_up Whether the exporter traces: 1, or 0.\n# TYPE fsynctop_up gauge\nfsynctop_up {up}\n\
             # HELP fsynctop_build_info The version, as a label; always 1.\n# TYPE fsynctop_build_info gauge\n\
             fsynctop_build_info{{version=\"{version}\"}} 1\n"
        )
        .into_bytes())
    }
}
