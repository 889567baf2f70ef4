//! Runs one command after the other on the database: whether it is known, has its words, and may write now. It knows no Lua.

use super::{
    commands::{self, Action, Command, Effect},
    database::{Answer, Database, MAX_BYTES},
    errors::{self, OUT_OF_MEMORY},
};

/// Past so many bytes a script is stopped that wrote and does not end.
const RUNAWAY: usize = 2 * MAX_BYTES;

/// Runs a command of a client.
pub(super) fn run(db: &mut Database, command: &Command, words: &[&[u8]]) -> Answer {
    let Action::Data(action) = command.action else { return Err(errors::unknown_command(words)) };
    if command.effect == Effect::Grows && db.is_full() {
        return Err(OUT_OF_MEMORY);
    }
    action(db, words)
}

/// Runs a command of the script that began last.
pub(super) fn run_in_script(db: &mut Database, words: &[&[u8]]) -> Answer {
    let name = words.first().copied().unwrap_or_default();
    let Some(command) = commands::find(name) else {
        // The server's words, and which one: it may be one that only this store lacks.
        let name = String::from_utf8_lossy(&name[..name.len().min(128)]);
        return Err(format!("ERR Unknown Redis command called from script: '{name}'").into());
    };
    if !command.takes(words.len()) {
        return Err("ERR Wrong number of args calling Redis command from script".into());
    }
    let Action::Data(action) = command.action else {
        return Err("ERR This Redis command is not allowed from script".into());
    };
    let running = db.running();
    // As on the server, no script is refused memory once it wrote: half of it would be done. Only one that never ends is.
    if command.effect == Effect::Grows && running.wrote && db.takes_more_than(RUNAWAY) {
        return Err("ERR a script took all the memory that this store has for scripts".into());
    }
    if command.effect == Effect::Grows && !running.wrote && running.short {
        return Err(OUT_OF_MEMORY);
    }
    if command.effect != Effect::Reads {
        db.script_wrote(running);
    }
    action(db, words)
}
