//! How many instructions each BPF program has: as the compiler leaves it, which a checked-in table keeps an
//! eye on, and as the running kernel executes it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use object::{Object, ObjectSymbol, SymbolKind};
use serde_json::json;

use crate::context::Context;
use crate::load::Load;
use crate::modes;
use crate::proc;
use crate::section::{Section, Table};
use crate::tracer::{Program, SCRIPT, Tracer, bpftrace};

/// The table, from the top of the repository.
pub const TABLE: &str = "tools/bench/instructions.txt";
const BYTES: u64 = 8;

/// Of each program and each function that is not inlined. Branches that a kernel will never take are
/// included.
pub fn of_object(elf: &[u8]) -> Result<BTreeMap<String, u64>> {
    let file = object::File::parse(elf).context("the programs' object")?;
    let functions = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0);
    let sizes = functions.map(|symbol| Ok((symbol.name()?.to_owned(), symbol.size() / BYTES)));
    let sizes: BTreeMap<_, _> = sizes.collect::<Result<_>>()?;
    ensure!(!sizes.is_empty(), "the programs' object has no functions");
    Ok(sizes)
}

/// What the figures depend on: "clang 14.0.6, x86_64".
pub fn compiler() -> Result<String> {
    let output = std::process::Command::new("clang").arg("--version").output().context("cannot run clang")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.split("clang version ").nth(1).and_then(|rest| rest.split_whitespace().next());
    Ok(format!("clang {}, {}", version.context("clang tells no version")?, std::env::consts::ARCH))
}

pub fn render(compiler: &str, sizes: &BTreeMap<String, u64>) -> String {
    let mut text = format!(
        "# Instructions of each program and function of bpf/sync.bpf.c, as the compiler leaves them.\n\
         # A test compares; `cargo run --package bench -- instructions --update` writes this anew.\n\
         # {compiler}\n"
    );
    sizes.iter().for_each(|(name, size)| text.push_str(&format!("{name} {size}\n")));
    text
}

pub fn update() -> Result<()> {
    let text = render(&compiler()?, &of_object(fsynctop::probe::OBJECT)?);
    std::fs::write(TABLE, text)
        .with_context(|| format!("cannot write {TABLE}; is this the top of the repository?"))
}

/// A loaded program.
struct Loaded {
    name: String,
    instructions: usize,
    machine_bytes: usize,
}

/// The programs that a process has loaded.
fn loaded_by(pid: u32) -> Vec<Loaded> {
    let ids = proc::bpf_ids(pid, "prog_id");
    let options =
        ProgInfoQueryOptions::default().include_xlated_prog_insns(true).include_jited_prog_insns(true);
    let programs = ProgInfoIter::with_query_opts(options).filter(|program| ids.contains_key(&program.id));
    let loaded = programs.map(|program| Loaded {
        name: program.name.to_string_lossy().into_owned(),
        instructions: program.xlated_prog_insns.len() / BYTES as usize,
        machine_bytes: program.jited_prog_insns.len(),
    });
    loaded.collect()
}

pub fn section(context: &Context) -> Result<Section> {
    let sizes = of_object(fsynctop::probe::OBJECT)?;
    let kernel = "after this kernel's verifier";
    let mut table =
        Table::new("", &["program", "instructions in the object", kernel, "bytes of machine code"]);
    let load = Load::start("mysqld", context.files.path())?;
    let mut programs: Vec<(String, Program)> = Vec::new();
    for mode in modes::all() {
        let running = Tracer::Fsynctop(mode).start(context, load.pid())?;
        programs.extend(running.into_program().map(|program| ("fsynctop".to_owned(), program)));
    }
    if !context.guest {
        programs.push(("bpftrace".into(), bpftrace(SCRIPT)?));
    }
    let mut values = Vec::new();
    let mut seen: BTreeSet<(&str, String)> = BTreeSet::new();
    for (tracer, program) in &programs {
        for Loaded { name, instructions, machine_bytes } in loaded_by(program.pid()) {
            let own = full_name(&name, &sizes).filter(|_| tracer == "fsynctop");
            let in_object = own.map_or("–".to_owned(), |own| sizes[own].to_string());
            let name = own.cloned().unwrap_or(name);
            if !seen.insert((tracer, name.clone())) {
                continue; // the same in each mode
            }
            let figures = [in_object, instructions.to_string(), machine_bytes.to_string()];
            table.row([format!("{tracer} {name}")].into_iter().chain(figures));
            values.push(json!({ "tracer": tracer, "program": name, "instructions": instructions, "bytes": machine_bytes }));
        }
    }
    let mut functions =
        Table::new("Functions that programs call, not inlined", &["function", "instructions"]);
    for (name, size) in sizes.iter().filter(|(name, _)| !is_program(name)) {
        functions.row([name.clone(), size.to_string()]);
    }
    Ok(Section {
        title: "Instructions".into(),
        about: vec![format!(
            "The object has the branches for every kernel; the verifier removes those that this one never takes, and its \
             figure has the functions in it that a program calls. A test fails when a figure of the object differs by \
             more than 2 % from `{TABLE}` ({}).",
            compiler().unwrap_or_else(|_| "no compiler here".into())
        )],
        tables: vec![table, functions],
        values: json!(values),
        ..Section::default()
    })
}

/// The kernel keeps 15 bytes of a name.
fn full_name<'a>(name: &str, sizes: &'a BTreeMap<String, u64>) -> Option<&'a String> {
    sizes.keys().find(|full| **full == name || (name.len() == 15 && full.starts_with(name)))
}

fn is_program(name: &str) -> bool {
    ["enter_", "exit_", "fentry_", "fexit_", "kprobe_", "kretprobe_", "follow_", "list_"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// What differs from the table by more than the tolerance, in words.
#[cfg(test)]
fn differences(table: &str, sizes: &BTreeMap<String, u64>) -> Vec<String> {
    const TOLERANCE_PERCENT: u64 = 2;
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    let known: BTreeMap<&str, u64> = lines
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, size)| Some((name, size.parse().ok()?)))
        .collect();
    let mut found = Vec::new();
    for (name, &size) in sizes {
        match known.get(name.as_str()) {
            None => found.push(format!("{name} is new: {size} instructions")),
            Some(&before) => {
                if size.abs_diff(before) * 100 > before * TOLERANCE_PERCENT {
                    let percent = (size as f64 / before as f64 - 1.0) * 100.0;
                    found.push(format!("{name}: {before} -> {size} instructions ({percent:+.1} %)"));
                }
            }
        }
    }
    found.extend(
        known.keys().filter(|&&name| !sizes.contains_key(name)).map(|name| format!("{name} is gone")),
    );
    found
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn no_program_has_grown_unnoticed() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.txt");
        let table = std::fs::read_to_string(&path).unwrap();
        let compiler = compiler().unwrap();
        if !table.contains(&compiler) {
            eprintln!("SKIPPED no_program_has_grown_unnoticed: {} is not of {compiler}", path.display());
            return;
        }
        let sizes = of_object(fsynctop::probe::OBJECT).unwrap();
        let found = differences(&table, &sizes);
        assert!(
            found.is_empty(),
            "the programs have other sizes than tools/bench/instructions.txt says:\n  {}\nIf that is meant: see what it \
             costs (make bench ONLY=sync QUICK=1), then `cargo run --package bench -- instructions --update`.",
            found.join("\n  ")
        );
    }

    #[test]
    fn growth_beyond_two_percent_new_functions_and_missing_ones_are_told() {
        let sizes = BTreeMap::from([("a".to_owned(), 1000), ("b".to_owned(), 102), ("new".to_owned(), 1)]);
        let table = "# c\na 1000\nb 100\ngone 5\n";
        assert_eq!(differences(table, &sizes), ["new is new: 1 instructions", "gone is gone"]);
        let table = "a 980\nb 102\nnew 1\n";
        assert_eq!(differences(table, &sizes), ["a: 980 -> 1000 instructions (+2.0 %)"]);
    }

    #[test]
    fn every_program_of_both_modes_is_counted() {
        let sizes = of_object(fsynctop::probe::OBJECT).unwrap();
        for program in [
            "enter_fsync_or_fdatasync_or_write_or_pwrite64_or_writev_or_pwritev_or_pwritev2",
            "exit_sync_file_range_or_msync_or_syncfs_or_sync",
            "fentry_fsync",
            "fexit_fdatasync",
            "list_in_flight",
            "send_name",
        ] {
            assert!(sizes.get(program).is_some_and(|&size| size > 10), "{program}: {sizes:?}");
        }
    }
}
