//! What a process of a server of several is there for, by the title that it gives itself in place of its
//! arguments.

use std::path::Path;

use crate::engine::engines::Engines;
use crate::linux::proc_file;
use crate::server::who::instances::Instances;
use crate::server::who::processes;
use crate::text;

/// Of a title, so much is looked at.
const MAX_TITLE: usize = 256;
/// Columns of a name.
const MAX_LENGTH: usize = 48;

/// Those of PostgreSQL whose titles say more than what they are (src/backend/utils/misc/ps_status.c and its
/// callers); as pg_stat_activity.backend_type has them.
const WITH_ARGUMENTS: [(&str, &str); 9] = [
    ("archiver ", "archiver"),
    ("autovacuum worker ", "autovacuum worker"),
    ("logical replication apply worker ", "logical replication worker"),
    ("logical replication worker ", "logical replication worker"),
    ("logical replication tablesync worker ", "logical replication worker"),
    ("parallel worker ", "parallel worker"),
    ("startup ", "startup"),
    ("walreceiver ", "walreceiver"),
    ("walsender ", "walsender"),
];
const CLIENT: &str = "client backend";

/// What a process of the server whose first process is `server` calls itself, without what changes with its
/// work. None: it has gone, or is no process of its own. May block on the process' memory lock.
pub(crate) fn of_process(proc_root: &Path, engines: &Engines, pid: u32, server: u32) -> Option<String> {
    if pid == server || Instances::new(proc_root, engines).first_of(pid) != server {
        return None;
    }
    let comm = processes::comm(proc_root, pid)?;
    let title = proc_file::read_once::<MAX_TITLE>(&proc_root.join(format!("{pid}/cmdline"))).ok()?;
    // Those of a process without a title are told apart by NULs; a title is filled up with them.
    let title = title.split(|&byte| byte == 0).next().unwrap_or_default();
    in_words(&comm, &String::from_utf8_lossy(title))
}

fn in_words(comm: &str, title: &str) -> Option<String> {
    let title = title.trim();
    let name = match title.strip_prefix("postgres: ") {
        Some(rest) => of_postgres(rest),
        // "redis-aof-rewrite *:6379": the address is the server's.
        None if title.starts_with("redis-") || title.starts_with("valkey-") => title.split(' ').next()?,
        None => comm,
    };
    Some(text::shorten_end(name, MAX_LENGTH, "…"))
}

/// Behind "postgres: ": the cluster's name, if it has one, and what the process is.
fn of_postgres(rest: &str) -> &str {
    let parts = || std::iter::successors(Some(rest), |rest| Some(rest.split_once(": ")?.1));
    for part in parts() {
        let named = WITH_ARGUMENTS.iter().find(|(begins, _)| part.starts_with(begins));
        if let Some((_, name)) = named {
            return name;
        }
    }
    // "alice shop 10.0.0.7(40312) COMMIT", "alice shop [local] idle"
    let is_address = |word: &str| {
        let port = word.strip_suffix(')').and_then(|word| Some(word.rsplit_once('(')?.1));
        word == "[local]"
            || port.is_some_and(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()))
    };
    if rest.split(' ').any(is_address) { CLIENT } else { parts().last().unwrap_or(rest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_say_what_a_process_is_there_for() {
        for (title, name) in [
            ("postgres: walwriter ", "walwriter"),
            ("postgres: 15/main: checkpointer ", "checkpointer"),
            ("postgres: 15/main: background writer", "background writer"),
            ("postgres: 15/main: autovacuum worker shop", "autovacuum worker"),
            ("postgres: walsender repl 10.0.0.7(40312) streaming 0/3000148", "walsender"),
            ("postgres: archiver last was 000000010000000000000003", "archiver"),
            ("postgres: startup recovering 000000010000000000000003", "startup"),
            ("postgres: alice shop 10.0.0.7(40312) COMMIT", "client backend"),
            ("postgres: 15/main: alice shop [local] idle in transaction", "client backend"),
            ("postgres: pg_cron launcher", "pg_cron launcher"),
            ("redis-aof-rewrite *:6379", "redis-aof-rewrite"),
            ("/usr/bin/redis-server 127.0.0.1:6379", "the comm"),
            ("/usr/lib/postgresql/15/bin/postgres", "the comm"),
        ] {
            assert_eq!(in_words("the comm", title).as_deref(), Some(name), "{title}");
        }
        assert!(
            in_words("c", &format!("postgres: {}", "x".repeat(200))).unwrap().chars().count() <= MAX_LENGTH
        );
    }

    #[test]
    fn a_process_of_another_server_has_none_here() {
        let own = std::process::id();
        let title = |pid| of_process(Path::new("/proc"), &Engines::builtin(), pid, own);
        assert_eq!(title(own), None);
        assert_eq!(title(1), None);
    }
}
