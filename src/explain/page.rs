//! The page that `explain` prints.

use std::fmt::Write;

use super::Explanation;
use crate::once::Style;
use crate::text;

pub fn page(explanation: &Explanation, style: &Style) -> String {
    let waits = &explanation.waits;
    let mut page = String::new();
    for (who, part) in &waits.parts {
        let _ = writeln!(page, "{} {} {}: {}", who.server.pid, who.role.name(), who.op.name(), text::duration(part.measured));
        for (phase, ns) in &part.phases {
            let _ = writeln!(page, "  {:<40} {:>10} {}", phase.title(), text::duration(*ns), text::percent(*ns as f64 / part.accounted() as f64));
            for ((_, state), ns) in part.under.iter().filter(|((wait, _), _)| wait == phase) {
                let _ = writeln!(page, "      {:<36} {:>10}", state.title(), text::duration(*ns));
            }
        }
    }
    let _ = writeln!(page, "accounted: {:?}", waits.accounted_share());
    let _ = style;
    page
}
