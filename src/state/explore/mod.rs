//! Explores what `src/state/` decides: the code that ships, in a small world that may do its worst, breadth first. It is no
//! part of the library: `tests/explore` compiles it together with the state, and with nothing else.
//!
//! A world is two processes of up to three tasks, and one key. Commands travel over links that delay, lose, repeat and cut
//! them; futures are dropped; processes die; the server forgets; time passes in ticks of ten seconds. After each step each
//! promise is checked. What breaks one is printed as a story, which is copied into a test as it stands.
//!
//! | file | job |
//! | --- | --- |
//! | `config`, `configs`, `small` | what a world may do; the worlds that are explored |
//! | `world` | what a world is |
//! | `choice`, `step` | what can happen next; how it happens: to tasks, |
//! | `kept`, `link`, `clock` | to holds that are kept, to commands and messages, with time |
//! | `process` | one process: events in, effects out |
//! | `server` | the server, as the table of states that the scripts are |
//! | `promise` | what must be true in each world |
//! | `fingerprint`, `seen` | a world as a number, whatever its numbers are called; all those that were met |
//! | `search` | breadth first, on several threads |
//! | `story` | the way to a world, in words and as a test |
//! | `fair` | the other driver: fixed latencies, and who is overtaken how often |
//! | `votes` | other worlds: three masters that vote |
//!
//! How a world stays small without a hook in the state. Numbers are drawn through the environment, so a world draws them with
//! the highest bit set, and its fingerprint calls them by the order in which they are met. Chance is nothing and so are all
//! pauses: a timer that is due at once may fire at any time, as a step of its own.

mod choice;
mod clock;
mod config;
mod configs;
pub(crate) mod fair;
mod fingerprint;
mod fixed;
mod kept;
mod link;
mod process;
mod promise;
mod search;
mod seen;
pub(crate) mod server;
mod small;
mod step;
mod story;
pub(crate) mod votes;
mod world;

#[cfg(test)]
pub(crate) use self::{config::Config, process::Run, step::Step, story::in_words, world::World};
pub(crate) use self::{
    configs::{Named, all},
    search::{End, Limits, Outcome, Worlds, search},
    story::Story,
};
