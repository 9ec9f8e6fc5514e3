//! Whose connection a thread of the server works for.

use std::collections::BTreeMap;

use super::client::{Error, Rows};

/// What a user's name may have, in characters (MariaDB 128, MySQL 32).
const LONGEST: usize = 128;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    /// The connection's number, as KILL takes it.
    pub id: u64,
    pub user: String,
}

/// By the thread's id, as the server's own PID namespace has it.
pub(crate) type Sessions = BTreeMap<u32, Session>;

/// MariaDB, whose performance_schema is off; then MySQL, which has no such column.
pub(super) const QUESTIONS: [&str; 2] = [
    "SELECT TID, ID, USER FROM information_schema.PROCESSLIST",
    "SELECT THREAD_OS_ID, PROCESSLIST_ID, PROCESSLIST_USER FROM performance_schema.threads \
     WHERE PROCESSLIST_ID IS NOT NULL AND THREAD_OS_ID IS NOT NULL",
];

/// The first that the server has an answer to. None: it has none, or the account may not ask.
pub(super) fn ask(
    query: &mut dyn FnMut(&str) -> Result<Rows, Error>,
    is_not_to_be_had: impl Fn(u16) -> bool,
) -> Result<Option<Sessions>, Error> {
    for question in QUESTIONS {
        match query(question) {
            Ok(rows) => return Ok(Some(rows.into_iter().filter_map(session).collect())),
            Err(Error::Refused(error)) if is_not_to_be_had(error.code) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn session(row: Vec<String>) -> Option<(u32, Session)> {
    let [tid, id, user] = <[String; 3]>::try_from(row).ok()?;
    let user = user.chars().take(LONGEST).collect();
    Some((tid.parse().ok()?, Session { id: id.parse().ok()?, user }))
}

#[cfg(test)]
mod tests {
    use super::super::client::ServerError;
    use super::*;

    fn asked(answer: impl Fn(&str) -> Result<Rows, u16>) -> Result<Option<Sessions>, Error> {
        let mut query = |question: &str| {
            answer(question).map_err(|code| {
                Error::Refused(ServerError { code, state: String::new(), message: "no".into() })
            })
        };
        ask(&mut query, |code| code == 1054 || code == 1142)
    }

    fn row(columns: [&str; 3]) -> Vec<String> {
        columns.map(str::to_owned).into()
    }

    #[test]
    fn each_server_is_asked_in_its_own_way() {
        let mariadb =
            asked(|_| Ok(vec![row(["71", "9", "shop"]), row(["no", "9", "shop"])])).unwrap().unwrap();
        assert_eq!(mariadb, Sessions::from([(71, Session { id: 9, user: "shop".into() })]));
        let mysql = asked(|question| match question.contains("performance_schema") {
            true => Ok(vec![row(["72", "8", "root"])]),
            false => Err(1054),
        });
        assert_eq!(mysql.unwrap().unwrap()[&72].id, 8);
        assert_eq!(asked(|_| Err(1142)).unwrap(), None);
        assert!(asked(|_| Err(1040)).is_err(), "too many connections");
    }
}
