//! The proof that processes at different distances show what becomes of their turns: each rule of `engine/turns.rs` that is left
//! out is noticed by one of these tests, and where none is they all pass. There is one only in a build with `--cfg relatch_mutants`.

use std::panic::catch_unwind;

use relatch::mutants::{self, Mutant};

const TESTS: [(&str, fn()); 5] = [
    ("a_process_at_16_ms", super::a_process_at_16_ms_and_a_near_one_both_have_their_turn),
    ("a_process_at_50_ms", super::a_process_at_50_ms_and_a_near_one_both_have_their_turn),
    ("a_process_at_200_ms", super::a_process_at_200_ms_and_a_near_one_both_have_their_turn),
    ("four_tasks_of_a_process_at_200_ms", super::four_tasks_of_a_process_at_200_ms_and_a_near_one_all_have_their_turn),
    ("four_processes_at_four_distances", super::four_processes_at_four_distances_all_have_their_turn),
];

/// The first test that fails with this fault, or without one.
fn noticed_by(mutant: Option<&'static Mutant>) -> Option<&'static str> {
    mutants::become_one(mutant);
    let noticed = TESTS.into_iter().find(|(_, test)| catch_unwind(test).is_err());
    mutants::become_one(None);
    noticed.map(|(name, _)| name)
}

#[test]
fn each_mutant_of_the_turns_is_found() {
    let all: Vec<_> = mutants::of_turns().iter().map(|mutant| (mutant, noticed_by(Some(mutant)))).collect();
    println!("| mutant | what it does wrong | noticed by |\n| --- | --- | --- |");
    for (Mutant { name, fault, .. }, by) in &all {
        println!("| `{name}` | {fault} | {} |", by.map_or_else(|| "–".to_owned(), |by| format!("`{by}_*`")));
    }
    let missed: Vec<_> = all.iter().filter(|(_, by)| by.is_none()).map(|(mutant, _)| mutant.name).collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
    assert_eq!(noticed_by(None), None, "it fails without one, too");
}
