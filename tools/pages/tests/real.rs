//! The pages by the formatters of two systems, and the completions by the shells themselves.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A directory with all files in it, as packages have them.
fn written() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    run(Command::new(env!("CARGO_BIN_EXE_pages")).arg(directory.path()));
    directory
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| {
        panic!("cannot run {:?}: {error}; `make deps` installs it", command.get_program())
    });
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn pages(directory: &Path) -> Vec<PathBuf> {
    let mut pages: Vec<_> =
        fs::read_dir(directory.join("man")).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    pages
}

#[test]
fn there_is_a_page_for_the_program_for_each_action_and_for_the_configuration() {
    let directory = written();
    let names: Vec<_> = pages(directory.path())
        .iter()
        .map(|page| page.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    for action in [
        "calibrate",
        "check",
        "events",
        "explain",
        "export",
        "exporter",
        "history",
        "once",
        "record",
        "segments",
        "stuck",
        "top",
        "verify",
    ] {
        assert!(names.contains(&format!("fsynctop-{action}.1")), "{names:?}");
    }
    assert!(
        names.contains(&"fsynctop.1".to_owned()) && names.contains(&"fsynctop.toml.5".to_owned()),
        "{names:?}"
    );
    assert_eq!(names.len(), 17, "{names:?}");
}

#[test]
fn two_runs_write_the_same() {
    let (one, other) = (written(), written());
    for kind in ["man", "completions"] {
        for entry in fs::read_dir(one.path().join(kind)).unwrap() {
            let name = entry.unwrap().file_name();
            let read = |directory: &TempDir| fs::read(directory.path().join(kind).join(&name)).unwrap();
            assert_eq!(read(&one), read(&other), "{name:?}");
        }
    }
}

#[test]
fn the_formatters_have_nothing_to_say_against_the_pages() {
    let directory = written();
    for page in pages(directory.path()) {
        let lint =
            Command::new("mandoc").args(["-T", "lint", "-W", "warning"]).arg(&page).output().expect("mandoc");
        assert!(lint.status.success() && lint.stdout.is_empty(), "{page:?}: {}", stdout(&lint));
        let mut man = Command::new("man");
        // As wide as a terminal: man has no width of its own here.
        man.env("MANWIDTH", "80").env("LC_ALL", "C.UTF-8").args(["--warnings", "--local-file"]).arg(&page);
        let shown = run(&mut man);
        assert!(shown.stderr.is_empty(), "{page:?}: {}", String::from_utf8_lossy(&shown.stderr));
        let text = stdout(&shown);
        for part in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "EXIT STATUS", "FILES", "SEE ALSO"] {
            assert!(text.lines().any(|line| line == part), "{page:?} has no {part}:\n{text}");
        }
    }
}

#[test]
fn nothing_that_is_hidden_or_gone_is_on_a_page_or_completed() {
    let directory = written();
    for kind in ["man", "completions"] {
        for entry in fs::read_dir(directory.path().join(kind)).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap().replace('\\', "");
            for hidden in ["exec-when-told", "exporter-web", "--json", "--once"] {
                assert!(!text.contains(hidden), "{path:?} has {hidden}");
            }
        }
    }
}

fn completions(directory: &TempDir, file: &str) -> PathBuf {
    directory.path().join("completions").join(file)
}

#[test]
fn bash_completes_actions_options_and_values() {
    let directory = written();
    let script = "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
                  _fsynctop fsynctop \"${COMP_WORDS[-1]}\" \"${COMP_WORDS[-2]}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let complete = |words: &[&str]| {
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", script, "bash"]).arg(completions(&directory, "fsynctop.bash"));
        stdout(&run(bash.args(words)))
    };
    assert_eq!(complete(&["fsynctop", "expl"]), "explain\n");
    assert_eq!(complete(&["fsynctop", "once", "--hist"]), "--histogram\n");
    let by = complete(&["fsynctop", "top", "--by", ""]);
    assert!(by.lines().any(|value| value == "neighbour"), "{by}");
}

#[test]
fn fish_completes_actions_options_and_values() {
    let directory = written();
    let complete = |line: &str| {
        let mut fish = Command::new("fish");
        fish.env("HOME", directory.path()).args([
            "--no-config",
            "-c",
            "source $argv[1]; complete -C $argv[2]",
        ]);
        stdout(&run(fish.arg(completions(&directory, "fsynctop.fish")).arg(line)))
    };
    assert!(complete("fsynctop expl").starts_with("explain\t"));
    assert!(complete("fsynctop once --hist").starts_with("--histogram\t"));
    assert!(complete("fsynctop top --by ").contains("neighbour"));
}

/// A zsh at a terminal of its own: it completes a line, and prints what the line has become. It is written to
/// once its line editor reads: what comes earlier goes through the terminal's own editing.
const ZSH: &str = r#"
zmodload zsh/zpty
zpty shell 'TERM=dumb PS1= zsh -f -i'
zpty -w shell 'fpath=("'$1'" $fpath); autoload -U compinit; compinit -u -D; \
    zle-line-init() { print "it"" reads" }; zle -N zle-line-init'
zpty -r shell part '*it reads*'
zpty -w -n shell "$2"$'\t\x01echo "[\x05]"\n'
zpty -w shell exit
while zpty -r shell part; do print -rn -- "$part"; done
"#;

#[test]
fn zsh_completes_actions_and_options() {
    let directory = written();
    let complete = |line: &str| {
        let mut zsh = Command::new("timeout");
        zsh.args(["30", "zsh", "-f", "-c", ZSH, "zsh"]).arg(directory.path().join("completions")).arg(line);
        stdout(&run(&mut zsh))
    };
    let action = complete("fsynctop expl");
    assert!(action.lines().any(|line| line.starts_with("[fsynctop explain")), "{action}");
    let option = complete("fsynctop once --hist");
    assert!(option.lines().any(|line| line.starts_with("[fsynctop once --histogram")), "{option}");
}
