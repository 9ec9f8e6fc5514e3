//! Renders the audit as a section of the page.

use super::{Advice, Finding, Standing};
use crate::text::escape_sentence;

/// Unindented lines, the most serious finding first.
pub fn render(findings: &[Finding], advice: &[Advice]) -> String {
    let mut text = String::new();
    for finding in findings {
        let word = match finding.standing {
            Standing::Broken => "BROKEN",
            Standing::Weak => "weak",
            Standing::Usual => "usual",
            Standing::Kept => "kept",
            Standing::Unseen => "unseen",
        };
        let setting = escape_sentence(&finding.setting);
        text.push_str(&format!("{word:<7} {setting}: {} ({}).\n", finding.promise, finding.seen));
    }
    if !findings.is_empty() && !advice.is_empty() {
        text.push('\n');
    }
    for advice in advice {
        text.push_str(&format!("{} {}\n", advice.what, advice.because));
    }
    text
}
