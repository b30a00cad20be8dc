//! The shortest calls on which one policy fails and another does not, from the command line.

use assert_cmd::Command;
use serde_json::{Value, json};

fn counterexample(arguments: &[&str]) -> assert_cmd::assert::Assert {
    Command::new(assert_cmd::cargo_bin!("heapwright")).arg("counterexample").args(arguments).assert()
}

fn rows(arguments: &[&str]) -> Vec<Value> {
    let output = counterexample(&[arguments, &["--json"]].concat()).success();
    serde_json::from_slice::<Value>(&output.get_output().stdout).unwrap()["results"].as_array().unwrap().clone()
}

#[test]
fn every_two_policies_have_a_row_and_both_directions_are_searched() {
    let rows = rows(&[]);
    assert_eq!(rows.len(), 30);
    assert!(rows.iter().all(|row| row["calls"].is_array()), "within the usual bounds no policy serves all of another");
    let buddy = rows.iter().find(|row| row["fails"] == "buddy" && row["serves"] == "first").unwrap();
    assert_eq!((&buddy["region"], &buddy["calls"]), (&json!(3), &json!([3])));
}

#[test]
fn two_policies_are_shown_call_by_call() {
    let output = counterexample(&["good", "best"]).success();
    let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    assert!(text.ends_with("allocate 1  c   c.b.  ..bc\nallocate 2  d  fails  ddbc\n"), "{text}");
}

#[test]
fn nothing_found_is_said_and_is_a_failure() {
    let output = counterexample(&["best", "first", "--calls", "5"]).code(1);
    let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    assert_eq!(text, "best serves all that first serves, in up to 5 calls and regions of up to 8 units\n");
    let output = counterexample(&["--region", "2", "--calls", "2"]).success();
    let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    let all = "Every policy serves all that the others serve, in up to 2 calls and regions of up to 2 units.\n";
    assert_eq!(text, all);
}

#[test]
fn one_policy_alone_or_twice_is_refused() {
    counterexample(&["best"]).code(2);
    counterexample(&["best", "best"]).code(2);
    counterexample(&["best", "random"]).code(2);
    counterexample(&["--region", "13"]).code(2);
}
