//! What the servers of the host would pay on the guests' kernels: their calls, times the instructions that
//! each costs there.

use fsynctop::model::AttachMode;
use serde_json::Value;

use crate::cost::{CallCost, Cost};
use crate::section::Table;

const MODES: [AttachMode; 3] = [AttachMode::Tracepoint, AttachMode::Fentry, AttachMode::Kprobe];

/// `servers`: the series of the part about servers. `guests`: by kernel, what the parts about calls have
/// measured there. None where either is missing.
pub fn table(servers: &Value, guests: &Value, kernels: &[&str]) -> Option<Table> {
    let mut columns = Vec::new();
    for kernel in kernels {
        let [sync, getppid] = ["sync", "getppid"].map(|part| &guests[kernel][part]);
        let measured = MODES.into_iter().filter_map(|mode| Some((mode, CallCost::of(sync, getppid, mode)?)));
        columns.extend(measured.map(|(mode, cost)| (format!("{kernel}, {}", mode.name()), cost)));
    }
    let mut table = Table::new(
        "What the programs would take of the servers above, millions of instructions a second",
        &["server", "load"],
    );
    table.header.extend(columns.iter().map(|(name, _)| name.clone()));
    for series in servers.as_array()? {
        let Ok(cost) = serde_json::from_value::<Cost>(series["cost"].clone()) else { continue };
        let names = ["server", "workload"].map(|name| series[name].as_str().unwrap_or_default().to_owned());
        let cells = columns.iter().map(|&(_, of_calls)| format!("{:.1}", 1e3 * cost.programs(of_calls)));
        table.row(names.into_iter().chain(cells));
    }
    (!columns.is_empty() && !table.rows.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_call_is_paid_for_as_often_as_it_is_made() {
        let part = |own: f64| {
            json!({
                "tracers": ["fsynctop, fentry"],
                "nanoseconds": { "traced, 1 CPU": { "added": [[own]] } },
            })
        };
        let guests =
            json!({ "6.12": { "sync": part(900.0), "getppid": part(0.0) }, "7.2": { "sync": part(1.0) } });
        let servers = json!([
            { "server": "MariaDB", "workload": "x", "cost": { "calls": 1e5, "syncs": 5e3, "own_time": 0.5 } },
            { "server": "MariaDB", "workload": "x", "cost": null },
        ]);
        let table = table(&servers, &guests, &["6.12", "7.2"]).unwrap();
        assert_eq!(table.header, ["server", "load", "6.12, fentry"]);
        assert_eq!(table.rows, [["MariaDB", "x", "4.5"]]);
        assert!(super::table(&json!([]), &guests, &["6.12"]).is_none());
    }
}
