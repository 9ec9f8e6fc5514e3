//! What holds from the outside and needs no root: the command line, the pages, the web server, the clients.

#[path = "../common/mod.rs"]
mod common;

mod advisories;
mod alerts;
mod build_commit;
mod cli;
mod configuration;
mod documentation;
mod example_recordings;
mod executable_memory;
mod exporter_guessing;
mod exporter_history_socket;
mod exporter_hostile;
mod exporter_tls;
mod exporter_web;
mod json_schema;
mod kubernetes;
mod rooms;
mod verdict_script;
