//! What is traced of MySQL and MariaDB, and what they count themselves.

mod compare;
mod redo_made;
mod written;

use crate::server::mysql::status::reading::Reading;

type Edge = super::Edge<Reading>;
