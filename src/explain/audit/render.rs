//! Renders the audit as a section of the page.

use super::{Advice, Finding, Standing};
use crate::text::escape_sentence;

/// A line for each finding, unindented, the most serious first.
pub fn render(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let word = match finding.standing {
            Standing::Broken => "BROKEN",
            Standing::Weak => "weak",
            Standing::Unclear => "unclear",
            Standing::Usual => "usual",
            Standing::Consistent => "consistent",
            Standing::Kept => "kept",
            Standing::Unseen => "unseen",
        };
        let setting = escape_sentence(&finding.setting);
        text.push_str(&format!("{word:<10} {setting}: {} ({}).\n", finding.promise, finding.seen));
    }
    text
}

/// A line for each piece of advice.
pub(crate) fn render_advice(advice: &[Advice]) -> String {
    advice.iter().map(|advice| format!("{} {}\n", advice.what, advice.because)).collect()
}
