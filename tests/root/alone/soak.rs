//! Needs root and a real server: an exporter beside a server that is never left alone. `make soak MINUTES=60`
//! runs it for as long as that; `make test` for long enough to know that it works.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::disk::Mounted;
use crate::common::exporter::Exporter;
use crate::common::scrape::{Scrape, watched};
use crate::common::server::{Database, Home, Kind};
use crate::common::{built, needs};

const MINUTES: &str = "FSYNCTOP_SOAK_MINUTES";
/// Without it.
const SHORT: Duration = Duration::from_secs(15);
/// Between two comparisons. The longer, the more there is to compare; the shorter, the sooner a difference
/// shows.
const ROUND: Duration = Duration::from_secs(30);
/// Of private memory, after the first round: what is remembered has found its bounds by then.
const MOST_GROWTH: u64 = 6 << 20;
/// A server that syncs by itself after each of so many rounds is never quiet.
const MOST_ROUNDS: usize = 5;
/// Files of the server and of neighbours that a round makes and removes.
const TABLES: usize = 20;
const NEIGHBOURS: usize = 20;

fn duration() -> Duration {
    let Ok(minutes) = std::env::var(MINUTES) else { return SHORT };
    let minutes: f64 = minutes.parse().unwrap_or_else(|_| panic!("{MINUTES}={minutes} is not a number"));
    Duration::from_secs_f64(minutes * 60.0)
}

/// Tables that come and go, binary logs that rotate, many connections, and processes that sync and end.
fn stir(database: &Database, memory: &Mounted, round: usize) {
    database.insert(8, 200);
    let mut statements =
        vec!["FLUSH BINARY LOGS".to_owned(), "CREATE DATABASE IF NOT EXISTS soak".to_owned()];
    for n in 0..TABLES {
        let table = format!("soak.t{round}_{n}");
        statements.push(format!("CREATE TABLE {table} (id INT PRIMARY KEY) ENGINE=InnoDB"));
        statements.push(format!("INSERT INTO {table} VALUES (1)"));
        statements.push(format!("DROP TABLE {table}"));
    }
    statements.push("PURGE BINARY LOGS BEFORE NOW()".to_owned());
    database.execute(&statements);
    for _ in 0..NEIGHBOURS {
        let mut neighbour = Command::new(built("syncgen"));
        neighbour.arg(memory.path()).args(["--syncs", "50", "--files", "5"]).stdout(Stdio::null());
        assert!(neighbour.status().unwrap().success());
    }
}

#[test]
#[ignore = "needs root, a kernel with BTF and MariaDB"]
fn root_soak_counts_stay_the_servers_own_and_memory_stays_bounded() {
    needs(&[]);
    let end = Instant::now() + duration();
    let (home, memory) = (Home::new(Kind::MariaDb), Mounted::tmpfs());
    let exporter = Exporter::start(&["--comm", &home.comm, "--max-cpu", "off"]);
    let mut database = home.start(&[], &[]);
    database.prepare();
    let (mut rounds, mut compared, mut private_at_first, mut stirred) = (0, 0, None, 0);
    while Instant::now() < end || (compared == 0 && rounds < MOST_ROUNDS) {
        rounds += 1;
        let until = (Instant::now() + ROUND).min(end);
        let ((), watched) = watched(&exporter, || {
            loop {
                stirred += 1;
                stir(&database, &memory, stirred);
                if Instant::now() >= until {
                    break;
                }
            }
        });
        let counted = database.quiet_counters();
        let scrape = Scrape::of(&exporter);
        scrape.assert_whole();
        // Else the server has synced in between, by itself: the next round compares both rounds.
        if database.counters() == counted {
            assert_eq!(scrape.innodb(), counted.innodb, "round {rounds}: {scrape:#?}");
            compared += 1;
        }
        let private = exporter.private();
        let growth = private.saturating_sub(*private_at_first.get_or_insert(private));
        println!(
            "round {rounds}: {} syncs, {} scrapes of at most {} samples, {:.1} MB private",
            scrape.syncs(&[]),
            watched.scrapes,
            watched.most_samples,
            private as f64 / 1e6
        );
        assert!(growth <= MOST_GROWTH, "{growth} bytes more than after the first round");
    }
    assert!(compared > 0, "the server was never quiet in {rounds} rounds");
}
