//! What could not be counted or attributed: one table, from which differences, sums, JSON, metrics and
//! sentences are made. A new kind of loss is a line here and its source in `src/sampler/rows.rs`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a loss does to the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Syncs that are in no figure. The sentence gives the reason behind their number.
    Missed,
    /// Syncs that are in no figure, and nobody knows how many.
    Blind,
    /// What is counted, though not attributed in full.
    Incomplete,
    /// What happened outside of the watched calls, or before the kernel ran them. The sentence needs to know
    /// more than the number (`src/render/reading/trouble.rs`).
    Outside,
}

/// How Prometheus sees a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exported {
    /// A `kind` of `fsynctop_lost_total`, which never decreases.
    Kind,
    /// In a family of its own, which never decreases.
    Apart,
    /// In a family of its own, as it is now.
    Now,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    Count(u64),
    Time(Duration),
}

/// One line of the table, with how much was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// In JSON and metrics.
    pub name: &'static str,
    pub effect: Effect,
    pub exported: Exported,
    /// `{}` stands for the amount. Empty for what is [`Effect::Outside`].
    pub sentence: &'static str,
    pub amount: Amount,
}

/// What counts and times have in common.
trait Lose: Copy + Ord + Default {
    fn minus(self, other: Self) -> Self;
    fn plus(self, other: Self) -> Self;
    fn amount(self) -> Amount;
    /// The same from a number: a count, or nanoseconds.
    fn of(number: u64) -> Self;
}

impl Lose for u64 {
    fn minus(self, other: u64) -> u64 {
        self.saturating_sub(other)
    }

    fn plus(self, other: u64) -> u64 {
        self.saturating_add(other)
    }

    fn amount(self) -> Amount {
        Amount::Count(self)
    }

    fn of(number: u64) -> u64 {
        number
    }
}

impl Lose for Duration {
    fn minus(self, other: Duration) -> Duration {
        self.saturating_sub(other)
    }

    fn plus(self, other: Duration) -> Duration {
        self.saturating_add(other)
    }

    fn amount(self) -> Amount {
        Amount::Time(self)
    }

    fn of(number: u64) -> Duration {
        Duration::from_nanos(number)
    }
}

macro_rules! losses {
    ($($(#[$attribute:meta])* $name:ident: $type:ty, $effect:ident, $exported:ident, $sentence:literal;)*) => {
        /// What could not be counted or attributed. Zero means that everything was counted, which has been
        /// verified; what is [`Effect::Outside`] is no loss of the watched calls as far as the kernel ran
        /// them.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Lost {
            $($(#[$attribute])* #[serde(default)] pub $name: $type,)*
        }

        impl Lost {
            pub fn since(&self, earlier: &Lost) -> Lost {
                Lost { $($name: self.$name.minus(earlier.$name),)* }
            }

            pub fn plus(&self, other: &Lost) -> Lost {
                Lost { $($name: self.$name.plus(other.$name),)* }
            }

            /// The most that was ever said: of some losses it turns out later that there were fewer. What is
            /// exported as it is now is that of `later`.
            pub(crate) fn most(&self, later: &Lost) -> Lost {
                Lost {
                    $($name: match Exported::$exported {
                        Exported::Now => later.$name,
                        Exported::Kind | Exported::Apart => self.$name.max(later.$name),
                    },)*
                }
            }

            /// Of a name of the table: a count, or nanoseconds. Other names are a later version's.
            pub(crate) fn set(&mut self, name: &str, amount: u64) {
                match name {
                    $(stringify!($name) => self.$name = Lose::of(amount),)*
                    _ => {}
                }
            }

            /// All of the table, in its order.
            pub(crate) fn losses(&self) -> [Loss; [$(stringify!($name)),*].len()] {
                [$(Loss {
                    name: stringify!($name),
                    effect: Effect::$effect,
                    exported: Exported::$exported,
                    sentence: $sentence,
                    amount: self.$name.amount(),
                }),*]
            }
        }
    };
}

losses! {
    preempted: u64, Missed, Kind, "{} because the kernel skipped a probe that it had preempted";
    files: u64, Incomplete, Kind,
        "{} syncs are in the totals, but in no file's row: there was no room for it.";
    events: u64, Incomplete, Kind,
        "{} syncs are counted without their latency bucket, which the quantiles lack: a ring was full.";
    names: u64, Incomplete, Now,
        "{} file names did not arrive, because a ring was full; the files are counted.";
    errors: u64, Incomplete, Kind,
        "{} failed syncs are counted without their errno: the map of the errors was full.";
    /// There was no room for the state of the call or the request.
    threads: u64, Missed, Kind, "{} because there was no room for the state of a call";
    processes: u64, Blind, Kind,
        "{} processes of the command were not followed, so their syncs are missing: a map was full.";
    /// Requests of io_uring and libaio.
    unreported: u64, Missed, Kind,
        "{} because it was not told how a request of io_uring or libaio ended";
    /// Changes of writeback errors that are counted for no file, at most.
    writeback_errors: u64, Incomplete, Kind,
        "{} writeback errors at most belong to files that are not known: their map was full, or the kernel skipped the probe.";
    /// Time in which tracing was paused to stay within `--max-cpu`.
    #[serde(rename = "paused_seconds", with = "super::seconds")]
    paused: Duration, Blind, Apart,
        "For {} nothing was traced, to keep within the limit of processor time (--max-cpu).";
    /// Syncs of traced processes that reached their filesystem outside of the watched calls, where that is
    /// seen ([`Net`](super::Net)): data made durable of which no row says anything.
    unwatched: u64, Outside, Kind, "";
    /// The same of processes that are not traced.
    neighbours_unwatched: u64, Outside, Apart, "";
    /// Calls of traced processes that returned without having been entered, beyond those whose entry the
    /// kernel skipped: a seccomp filter or a tracer answered them before the kernel ran them, or they had
    /// begun before tracing did.
    answered: u64, Outside, Kind, "";
}

impl Amount {
    pub(crate) fn is_zero(self) -> bool {
        matches!(self, Amount::Count(0) | Amount::Time(Duration::ZERO))
    }
}

impl Lost {
    /// Whether every watched call is counted and attributed, whatever happened outside of them.
    pub fn is_zero(&self) -> bool {
        self.losses().iter().all(|loss| loss.effect == Effect::Outside || loss.amount.is_zero())
    }

    /// Whether watched calls may be in no figure at all.
    pub(crate) fn is_incomplete(&self) -> bool {
        let misses = |loss: &Loss| matches!(loss.effect, Effect::Missed | Effect::Blind);
        self.losses().iter().any(|loss| misses(loss) && !loss.amount.is_zero())
    }

    /// How many syncs are in no figure, as far as their number is known.
    pub(crate) fn missed(&self) -> u64 {
        let missed = self.losses().into_iter().filter(|loss| loss.effect == Effect::Missed);
        missed.fold(0, |sum, loss| match loss.amount {
            Amount::Count(n) => sum.saturating_add(n),
            Amount::Time(_) => sum,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every field is different, so that none can be taken for another.
    fn each() -> Lost {
        let names = Lost::default().losses().map(|loss| loss.name);
        let fields = names.iter().zip(1..).map(|(name, n)| match *name {
            "paused" => ("paused_seconds".to_owned(), n.into()),
            name => (name.to_owned(), n.into()),
        });
        serde_json::from_value(serde_json::Value::Object(fields.collect())).unwrap()
    }

    #[test]
    fn sums_and_differences_are_of_every_field() {
        let (one, two) = (each(), each().plus(&each()));
        assert!(one.losses().iter().all(|loss| !loss.amount.is_zero()));
        assert_eq!(two.since(&one), one);
        assert_eq!(one.since(&two), Lost::default());
        assert_eq!((one.plus(&Lost::default()), Lost::default().plus(&one)), (one, one));
        let most = two.most(&one);
        assert_eq!(Lost { names: two.names, ..most }, two);
        assert_eq!(most.names, one.names, "those that have no name yet, and get one");
    }

    #[test]
    fn what_is_said_of_a_loss_names_how_much() {
        for loss in each().losses() {
            let slots = loss.sentence.matches("{}").count();
            assert_eq!(slots, usize::from(loss.effect != Effect::Outside), "{}", loss.name);
        }
    }

    #[test]
    fn only_what_happened_within_the_watched_calls_is_a_loss() {
        let outside = Lost { unwatched: 1, neighbours_unwatched: 1, answered: 1, ..Lost::default() };
        assert!(outside.is_zero() && !outside.is_incomplete());
        let missed = Lost { preempted: 1, threads: 2, unreported: 3, processes: 4, ..Lost::default() };
        assert_eq!((missed.missed(), missed.is_incomplete()), (6, true));
        let nameless = Lost { names: 1, ..Lost::default() };
        assert!(!nameless.is_zero() && !nameless.is_incomplete());
    }
}
