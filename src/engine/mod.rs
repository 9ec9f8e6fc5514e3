//! What is known of each database engine, as data: a profile for each in `profiles/`, rules that several
//! share in `rules/`. [`engines`] has all profiles, the user's own in front; [`rules`] are those by which
//! files get their roles, each of them a [`rule`].

pub mod engines;
mod members;
pub(crate) mod profile;
pub(crate) mod rule;
pub mod rules;
mod source;

#[cfg(test)]
mod page;
