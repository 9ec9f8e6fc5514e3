//! The few numbers of `SHOW ENGINE INNODB STATUS` that older servers show nowhere else.

/// In bytes of redo log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStatus {
    pub lsn: Option<u64>,
    pub checkpoint: Option<u64>,
    /// Percona Server prints it.
    pub max_checkpoint_age: Option<u64>,
}

impl EngineStatus {
    pub fn parse(text: &str) -> EngineStatus {
        let number = |name: &str| {
            let rest = text.lines().find_map(|line| line.trim_start().strip_prefix(name))?;
            rest.split_whitespace().next()?.parse().ok()
        };
        EngineStatus {
            lsn: number("Log sequence number "),
            checkpoint: number("Last checkpoint at "),
            max_checkpoint_age: number("Max checkpoint age "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_section_is_read_whatever_the_spacing() {
        let text = "---\nLOG\n---\nLog sequence number          19598\nLog buffer assigned up to    19598\n\
                    Last checkpoint at  19100\n0 pending log flushes\n";
        let status = EngineStatus::parse(text);
        assert_eq!(
            status,
            EngineStatus { lsn: Some(19598), checkpoint: Some(19100), max_checkpoint_age: None }
        );
        assert_eq!(EngineStatus::parse("nothing of the kind"), EngineStatus::default());
        assert_eq!(EngineStatus::parse("Log sequence number many").lsn, None);
    }
}
