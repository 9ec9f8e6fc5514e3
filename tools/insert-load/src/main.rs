//! insert-load: the classic durability load. Concurrent connections, each committing single-row INSERTs,
//! started together.

mod report;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use clap::Parser;
use insert_load::Tally;
use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder};

use crate::report::{CommitLatency, Report};

const DATABASE: &str = "CREATE DATABASE IF NOT EXISTS napkin";
const TABLE: &str = "CREATE TABLE IF NOT EXISTS napkin.products (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, shop_id BIGINT NOT NULL, title VARCHAR(255) NOT NULL) ENGINE=InnoDB";
const INSERT: &str = "INSERT INTO napkin.products (shop_id, title) VALUES (?, ?)";

/// Commits single-row INSERTs into napkin.products from many connections at once, and prints how fast that
/// went.
///
/// Every INSERT is a transaction of its own (autocommit), so each one waits until it is durable. Without
/// --prepare or --run it does both; apart, they keep the creation of the table out of a measured window.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// The server's local socket.
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    #[arg(long, default_value = "root")]
    user: String,
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// Rows that each connection inserts.
    #[arg(long, default_value_t = 1000)]
    rows: u32,
    /// Pause after each INSERT, for example 10ms: the load of an application that also does other things.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    statement_delay: Duration,
    /// Only create the database and the table, where they are missing.
    #[arg(long, conflicts_with = "run")]
    prepare: bool,
    /// Only insert; the table must be there.
    #[arg(long)]
    run: bool,
    /// Keep the number of rows that were committed so far in this file, in its first eight bytes: whoever
    /// maps it into memory reads it at any moment without asking the server.
    #[arg(long, value_name = "FILE")]
    tally: Option<PathBuf>,
    /// Print one JSON object instead of sentences.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    match try_main(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("insert-load: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn try_main(options: &Options) -> Result<()> {
    let connect_options = connect_options(&options.socket, &options.user);
    if !options.run {
        prepare(&connect_options, options)?;
    }
    if !options.prepare {
        let report = run(&connect_options, options)?;
        let text = if options.json {
            serde_json::to_string(&report).context("cannot encode the result")? + "\n"
        } else {
            report.to_string()
        };
        std::io::stdout().write_all(text.as_bytes()).context("cannot print the result")?;
    }
    Ok(())
}

fn connect_options(socket: &Path, user: &str) -> Opts {
    // A socket whose name is not UTF-8 is no use to the client library.
    OptsBuilder::new().socket(socket.to_str()).user(Some(user)).into()
}

fn connect(connect_options: &Opts, options: &Options) -> Result<Conn> {
    let cause = || format!("cannot connect as '{}' through {}", options.user, options.socket.display());
    if !options.socket.exists() {
        return Err(anyhow!("no such socket; is the server running?")).with_context(cause);
    }
    Conn::new(connect_options.clone()).with_context(cause)
}

fn prepare(connect_options: &Opts, options: &Options) -> Result<()> {
    let mut connection = connect(connect_options, options)?;
    connection.query_drop(DATABASE).context("cannot create the database napkin")?;
    connection.query_drop(TABLE).context("cannot create the table napkin.products")
}

/// Connects everything first, so that one connection too many fails before anything is inserted, then starts
/// all together.
fn run(connect_options: &Opts, options: &Options) -> Result<Report> {
    let mut sessions = Vec::new();
    for number in 1..=options.connections {
        let mut connection = connect(connect_options, options)
            .with_context(|| format!("connection {number} of {}", options.connections))?;
        connection.query_drop("SET SESSION autocommit = 1").context("cannot turn autocommit on")?;
        let insert = connection.prep(INSERT).context("cannot insert into napkin.products")?;
        sessions.push((number, connection, insert));
    }
    let tally = options.tally.as_deref().map(Tally::create).transpose()?.map(Arc::new);
    let start = Arc::new(Barrier::new(sessions.len() + 1));
    let (rows, pause) = (options.rows, options.statement_delay);
    let workers: Vec<_> = sessions
        .into_iter()
        .map(|(number, mut connection, insert)| {
            let (start, tally) = (Arc::clone(&start), tally.clone());
            thread::spawn(move || -> Result<CommitLatency> {
                let mut latency = CommitLatency::new();
                start.wait();
                for row in 1..=rows {
                    let began = Instant::now();
                    connection
                        .exec_drop(&insert, (number, format!("product {row} of shop {number}")))
                        .with_context(|| format!("connection {number}, row {row} of {rows}"))?;
                    latency.record(began.elapsed());
                    if let Some(tally) = &tally {
                        tally.add_one();
                    }
                    if !pause.is_zero() {
                        thread::sleep(pause);
                    }
                }
                Ok(latency)
            })
        })
        .collect();
    start.wait();
    let began = Instant::now();
    let results: Vec<_> = workers.into_iter().map(thread::JoinHandle::join).collect();
    let elapsed = began.elapsed();
    let mut total = CommitLatency::new();
    for result in results {
        total.add(&result.map_err(|_| anyhow!("a connection's thread panicked"))??);
    }
    Ok(Report::new(options.connections, elapsed, &total))
}
