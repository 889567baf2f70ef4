//! The statements of the guide's page on fencing, each run in a database as it stands there.

use relatch::fence::Newest;
use rusqlite::{Connection, named_params};

const PAGE: &str = include_str!("../../../src/guide/fencing.rs");

/// The statements of the page.
fn statements() -> Vec<String> {
    let (mut found, mut inside) = (Vec::<String>::new(), false);
    for line in PAGE.lines().filter_map(|line| line.strip_prefix("//!")) {
        match (line.trim(), inside) {
            ("```sql", _) => (inside, found) = (true, [found, vec![String::new()]].concat()),
            ("```", true) => inside = false,
            (line, true) => found.last_mut().expect("a statement has begun").extend([line, " "]),
            _ => {}
        }
    }
    found
}

/// Whether a write of this token changed a row.
fn writes(database: &Connection, statement: &str, token: i64, value: i64) -> bool {
    let mut prepared = database.prepare(statement).expect("a statement of this database");
    let changed = match prepared.parameter_count() {
        // Of a token that has a row of its own.
        2 => prepared.execute(named_params! { "$1": token, "$2": "account" }),
        _ => prepared.execute(named_params! { "$1": value, "$2": token, "$3": 17 }),
    };
    changed.expect("the database takes it") == 1
}

fn database() -> Connection {
    let database = Connection::open_in_memory().expect("a database");
    let tables = "
        CREATE TABLE account (id INTEGER PRIMARY KEY, balance BIGINT NOT NULL, fence BIGINT NOT NULL);
        CREATE TABLE guarded (name TEXT PRIMARY KEY, fence BIGINT NOT NULL);
        INSERT INTO account VALUES (17, 0, 0);
        INSERT INTO guarded VALUES ('account', 0);
    ";
    database.execute_batch(tables).expect("the tables are made");
    database
}

fn kept(database: &Connection, statement: &str) -> i64 {
    let table = if statement.contains("guarded") { "guarded" } else { "account" };
    database.query_row(&format!("SELECT fence FROM {table}"), [], |row| row.get(0)).expect("one row")
}

#[test]
fn each_statement_takes_what_is_not_older_and_refuses_the_rest() {
    const DOUBLE: i64 = 1 << 53;
    let statements = statements();
    assert_eq!(statements.len(), 3, "{statements:?}");
    for statement in statements {
        let (database, newest) = (database(), Newest::new());
        let tokens =
            [33, 33, 34, 33, 34, DOUBLE - 1, DOUBLE + 1, DOUBLE, i64::MAX - 1, i64::MAX, i64::MAX - 1, i64::MAX];
        let mut taken = 0;
        for (value, token) in (1..).zip(tokens) {
            let wanted = newest.admits(u64::try_from(token).expect("a token"));
            assert_eq!(writes(&database, &statement, token, value), wanted, "{statement}: {token}");
            taken = if wanted { token } else { taken };
            assert_eq!(kept(&database, &statement), taken, "{statement}: {token}");
        }
    }
}

#[test]
fn a_row_that_is_not_there_yet_is_made() {
    let (database, statements) = (database(), statements());
    database.execute("DELETE FROM account", []).expect("the row is gone");
    let insert = statements.iter().find(|statement| statement.starts_with("INSERT")).expect("one makes rows");
    let wrote = [33, 34, 33].map(|token| writes(&database, insert, token, token * 10));
    assert_eq!(wrote, [true, true, false]);
    let balance: i64 = database.query_row("SELECT balance FROM account", [], |row| row.get(0)).expect("one row");
    assert_eq!((balance, kept(&database, insert)), (340, 34));
}
