use fsynctop::probe::*;
use fsynctop::snapshot::*;
use std::time::{Duration, Instant};
fn main() {
    let t = Instant::now();
    let config = ProbeConfig {
        targets: Targets {
            comms: vec![CommPattern::new(std::env::args().nth(1).unwrap_or("mysqld".into()).as_bytes())],
            ..Default::default()
        },
        ops: vec![Op::Fsync, Op::Fdatasync],
        mode: None,
        preemptible: false,
        by_thread: std::env::args().nth(2).is_some(),
        capacity: Capacity::default(),
    };
    let mut p = match Probe::attach(&config) {
        Ok(p) => p,
        Err(e) => {
            eprintln!("{e}");
            std::process::exit(1)
        }
    };
    println!(
        "attached in {:?}: {:?} not {:?} {:?} maps {} MB",
        t.elapsed(),
        p.attached().mode,
        p.attached().not_chosen,
        p.attached().features,
        config.capacity.map_bytes() >> 20
    );
    for q in &p.attached().programs {
        println!("{} {}", q.name, q.instructions);
    }
    let end = Instant::now() + Duration::from_secs(5);
    while Instant::now() < end {
        p.wait(Duration::from_millis(500)).unwrap();
        for e in p.take_events() {
            match e {
                Event::File(f) => println!(
                    "file slot {} fd {} mnt {} mode {:o} {:?}",
                    f.slot,
                    f.fd,
                    f.mount_id,
                    f.mode,
                    f.components.iter().map(|c| String::from_utf8_lossy(c).into_owned()).collect::<Vec<_>>()
                ),
                Event::Sync(s) => println!("{s:?}"),
            }
        }
        for c in p.in_flight().unwrap() {
            println!("in flight {c:?}");
        }
    }
    for s in p.slots_in_use().collect::<Vec<_>>() {
        let r = p.row(s).unwrap();
        if r.started > 0 {
            let h: u64 = if p.has_histogram(s) { p.histogram(s).unwrap().bucket.iter().sum() } else { 0 };
            println!("{s} {r:?} hist {h}");
        }
    }
    println!("{:?} {:?}", p.counters(), p.errors());
}
