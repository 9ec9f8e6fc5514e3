//! Needs root, to take a turn, and promtool: the rules and alerts of examples/prometheus are sound, and hold
//! in their cases.

use std::path::Path;

use crate::common::needs;
use crate::common::prometheus::promtool;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");

#[test]
#[ignore = "needs root and promtool"]
fn rules_are_sound_and_their_cases_hold() {
    needs(&[]);
    let directory = Path::new(EXAMPLES).join("prometheus");
    promtool(&["check", "rules", "fsynctop.rules.yml"], &directory);
    promtool(&["test", "rules", "fsynctop.tests.yml", "fsynctop.week.tests.yml"], &directory);
}
