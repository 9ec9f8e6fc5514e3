//! The result of a check: one line of `fsynctop check`.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Ok,
    /// Tracing works, but something is missing or less exact.
    Warn,
    /// Tracing does not work.
    Fail,
}

impl Status {
    /// The word shown in the table.
    pub fn word(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Warn => "warn",
            Status::Fail => "FAIL",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    pub name: &'static str,
    pub status: Status,
    /// The finding and, unless it is good, its consequence.
    pub detail: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
}

impl Verdict {
    pub fn ok(name: &'static str, detail: impl Into<String>) -> Verdict {
        Verdict { name, status: Status::Ok, detail: detail.into(), cure: None }
    }

    pub fn warn(name: &'static str, detail: impl Into<String>) -> Verdict {
        Verdict { name, status: Status::Warn, detail: detail.into(), cure: None }
    }

    pub fn fail(name: &'static str, detail: impl Into<String>) -> Verdict {
        Verdict { name, status: Status::Fail, detail: detail.into(), cure: None }
    }

    pub(crate) fn cured_by(self, cure: impl Into<String>) -> Verdict {
        Verdict { cure: Some(cure.into()), ..self }
    }
}
