//! `pageyard-lab states` as a user meets it.

use crate::LAB;
use pageyard_documents::transcripts;
use std::path::Path;

#[test]
fn the_page_of_states_shows_what_the_command_prints() {
    transcripts::check(&LAB, "docs/design/states.md");
}

#[test]
fn a_state_is_written_as_a_recording_and_as_calls_and_never_over_others() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("states-command");
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir_all(&folder).unwrap();
    let (out, calls) = (folder.join("pinned.trace"), folder.join("pinned.calls"));
    let (out_text, calls_text) = (out.to_str().unwrap(), calls.to_str().unwrap());
    let make = ["states", "pinned", "--degree", "low", "--memory", "1G"];
    let row = LAB.json(&[&make[..], &["--out", out_text, "--calls", calls_text, "--json"]].concat());
    let row = &row["states"][0];
    assert!(row["off_pct"].as_f64().unwrap() <= 5.0, "{row}");
    let text = std::fs::read_to_string(&calls).unwrap();
    assert!(
        text.starts_with("pageyard-calls 1\n# The state pinned, low, seed 1:") && text.ends_with("drain\n")
    );
    let again = LAB.failure(&[&make[..], &["--out", out_text]].concat());
    assert!(again.contains("pinned.trace"), "{again}");
    let again = LAB.failure(&[&make[..], &["--calls", calls_text]].concat());
    assert!(again.contains("pinned.calls cannot be written"), "{again}");

    // The recording is one that a state can be taken from.
    let taken = LAB.json(&["states", "--from", out_text, "--json"]);
    assert_eq!(taken["states"][0]["measured"], row["measured"]);
    let end = LAB.failure(&["states", "--from", out_text, "--at", "end"]);
    assert!(end.contains("pinned has no snapshot of the end"), "{end}");
}

#[test]
fn what_cannot_be_made_is_said_in_a_sentence() {
    for (arguments, says) in [
        (&["states", "molten"][..], "there is no state `molten`; there are cache-evicted"),
        (&["states", "pinned", "--degree", "extreme"], "a degree is low, middle or high"),
        (&["states", "pinned", "--memory", "3M"], "no whole number of pageblocks; take a multiple of 2 MiB"),
        (&["states", "pinned", "--memory", "16M"], "comes within 5 % of pinned, middle; take "),
        (&["states", "pinned", "--memory", "1T"], "256.0 GiB are the most"),
        (&["states", "--out", "x.trace"], "name the state that is to be written"),
        (&["states", "--from", "/nowhere.trace"], "/nowhere.trace"),
        (&["states", "pinned", "--load", "--out", "x.trace"], "name the recording with --from"),
        (&["states", "--from", "a.trace", "--at", "end", "--load", "--out", "x.trace"], "without --at"),
    ] {
        let why = LAB.failure(arguments);
        assert!(why.contains(says), "{arguments:?}: {why}");
    }
}
