//! Matches that wait for a tool, a file, an exception or the end of the part, more of them than a rule keeps.

use super::*;

/// Reads one tool call in pieces of several sizes and returns the number of hits, which must not depend on the size. The
/// tool is named after the input.
#[track_caller]
fn hits_of_call(pack: &Pack, tool: &str, input: &str) -> usize {
    let mut counts = [1, 7, 100, 5000].map(|size| {
        let mut stream = pack.stream();
        stream.open(PART, Channel::ToolInput);
        let mut hits = 0;
        for delta in input.as_bytes().chunks(size) {
            hits += stream.push(PART, delta).len();
        }
        hits += stream.set_tool(PART, tool, "1").len();
        hits + stream.finish().len()
    });
    counts.sort_unstable();
    assert_eq!(
        counts[0], counts[3],
        "the hits depend on the size of deltas"
    );
    counts[0]
}

#[test]
fn allowed_matches_that_wait_do_not_push_out_one_that_counts() {
    let exceptions = "[[allow]]\nrules = ['t/r']\ntext = ['key-1']\npaths = ['fixtures/**']\nreason = 'made up'\n\
         [[allow]]\nrules = ['t/r']\ntext = ['key-2']\nreason = 'made up'";
    for action in ["abort", "redact"] {
        let pack = rules(&format!(
            "[rule.r]\ndescription = 'd'\non = ['tool-input']\naction = '{action}'\nargs = ['content']\n\
             paths = ['**/*.rs']\nmatch.any = [{{ regex = 'key-[0-9]' }}]\n{exceptions}"
        ));
        for (allowed, other, hits) in [
            ("key-1 ", "key-3 ", 1),
            ("key-2 ", "key-3 ", 1),
            ("key-2 ", "key-1 ", 0),
        ] {
            let content = allowed.repeat(300) + other;
            let input = format!(r#"{{"content":"{content}","path":"fixtures/a.rs"}}"#);
            assert_eq!(
                hits_of_call(&pack, "write", &input),
                hits,
                "{action} {allowed} {other}"
            );
        }
    }
}

#[test]
fn lines_of_an_allowed_file_do_not_push_out_those_of_another_before_the_tool_is_named() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['tool-input']\ntools = ['patch']\n\
         match.any = [{ regex = 'key-1', region = 'added' }]\n\
         [[allow]]\nrules = ['t/r']\npaths = ['fixtures/**']\nreason = 'made up'",
    );
    let patch = "*** Begin Patch\n*** Add File: fixtures/a\n+key-1 \n*** Add File: src/a\n+key-1 \n\
                 *** End Patch\n";
    assert_eq!(hits_of_call(&pack, "patch", patch), 1);
    assert_eq!(hits_of_call(&pack, "other", patch), 0);
}

#[test]
fn matches_near_the_end_count_however_many_wait_before_them() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['text']\nmatch = { any = [{ literal = 'ab' }], last = 1000 }",
    );
    // 900 characters of matches. Of the 300 matches, the first 256 are too far from the end.
    for (filler, hits) in [(950, 1), (1100, 0)] {
        let text = "ab ".repeat(300) + &"-".repeat(filler);
        for size in [1, 100, 5000] {
            let mut stream = pack.stream();
            stream.open(PART, Channel::Text);
            for delta in text.as_bytes().chunks(size) {
                assert_eq!(stream.push(PART, delta).len(), 0);
            }
            assert_eq!(stream.finish().len(), hits, "{filler} in pieces of {size}");
        }
    }
}

#[test]
fn matches_beyond_those_that_wait_are_held() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['text']\naction = 'abort'\nhold = true\n\
         match = { any = [{ literal = 'ab' }], last = 1000 }",
    );
    let text = "ab ".repeat(300) + &"-".repeat(950);
    let mut stream = pack.stream();
    stream.open(PART, Channel::Text);
    for delta in text.as_bytes().chunks(10) {
        let _ = stream.push(PART, delta);
    }
    let released = stream.releasable(PART);
    let hits = stream.finish().to_vec();
    assert_eq!(hits.len(), 1);
    // All matches that begin at 850 or later are within 1,000 characters of the end.
    assert!(released <= 852, "{released}");
}

#[test]
fn a_count_includes_matches_beyond_those_that_wait() {
    let pack = |condition: &str| {
        rules(&format!(
            "[rule.r]\ndescription = 'd'\non = ['tool-input']\nargs = ['content']\n{condition}"
        ))
    };
    let input = format!(r#"{{"content":"{}","path":"a.rs"}}"#, "x ".repeat(300));
    for (times, hits) in [(256, 1), (257, 1), (300, 1), (301, 0)] {
        for condition in [
            "paths = ['*.rs']\nmatch.any = [{ literal = 'x' }]",
            "match.any = [{ literal = 'x' }]\nmatch.none = [{ literal = 'zz' }]\nmatch.within = { part = true }",
            "match.any = [{ literal = 'x' }]\nmatch.last = 10000",
        ] {
            let pack = pack(&format!("{condition}\nmatch.count = {times}"));
            assert_eq!(
                hits_of_call(&pack, "write", &input),
                hits,
                "{times} {condition}"
            );
        }
    }
}

#[test]
fn a_sequence_has_its_first_match_however_many_of_them_follow_in_the_second() {
    for (within, gap, hits) in [(2000, 100, 1), (2000, 2500, 0), (100_000, 100, 1)] {
        let pack = rules(&format!(
            "[rule.r]\ndescription = 'd'\non = ['text']\nmatch.within = {{ chars = {within} }}\n\
             match.sequence = [{{ literal = 'ab' }}, {{ regex = 'x[ab ]{{600,}}y' }}]"
        ));
        let text = format!("ab {}x{}y.", "-".repeat(gap), "ab ".repeat(300));
        for size in [1, 100, 5000] {
            let mut stream = pack.stream();
            stream.open(PART, Channel::Text);
            let mut found = 0;
            for delta in text.as_bytes().chunks(size) {
                found += stream.push(PART, delta).len();
            }
            found += stream.finish().len();
            assert_eq!(found, hits, "{within} in pieces of {size}");
        }
    }
}

#[test]
fn a_step_over_parts_keeps_the_match_that_the_sequence_needs() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['text']\nmatch.within = { message = true }\n\
         match.sequence = [{ literal = 'ab' }, { literal = 'cd' }, { literal = 'ef' }]",
    );
    let parts = [PartId(0), PartId(1)];
    // Of 300 matches of the second step in part 1, only the first one is before that of the third step. The first step
    // arrives last.
    let mut stream = pack.stream();
    for part in parts {
        stream.open(part, Channel::Text);
    }
    let text = format!("cd ef {}", "cd ".repeat(300));
    let before = stream.push(parts[1], text.as_bytes()).len();
    let hits = stream.push(parts[0], b"ab ").len();
    assert_eq!((before, hits), (0, 1));
}

#[test]
fn allowed_texts_are_compared_with_all_of_a_long_match() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['text']\nmatch.any = [{ regex = 'key-[a-z0-9]+' }]\n\
         [[allow]]\nrules = ['t/r']\ntext = ['b*']\nreason = 'made up'\n\
         [[allow]]\nrules = ['t/r']\ntext = ['key-a*']\nreason = 'made up'",
    );
    // An excerpt has the last 120 bytes of a match.
    for (text, hits) in [
        (format!("key-1{} ", "b".repeat(200)), 1),
        (format!("key-a{} ", "c".repeat(200)), 0),
    ] {
        let mut stream = pack.stream();
        stream.open(PART, Channel::Text);
        let found = stream.push(PART, text.as_bytes()).len() + stream.finish().len();
        assert_eq!(found, hits, "{text}");
    }
}

#[test]
fn a_rule_that_counts_redacts_from_that_number_on() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['text']\naction = 'redact'\nmatch.any = [{ literal = 'ab' }]\n\
         match.count = 2",
    );
    let text = b"ab ab ab.";
    for size in [1, 4, 100] {
        let mut conversation = crate::Conversation::new(&pack);
        let mut turn = conversation.turn("");
        let mut attempt = turn.attempt();
        let mut out = Vec::new();
        assert_eq!(attempt.open(PART, Channel::Text), crate::Flow::Go);
        for delta in text.chunks(size) {
            out.extend_from_slice(attempt.forward(PART, delta).expect("nothing is cut"));
        }
        assert_eq!(attempt.finish(), crate::Flow::Go);
        out.extend_from_slice(attempt.take(PART));
        assert_eq!(out, b"ab [redacted] [redacted].", "pieces of {size}");
    }
}

#[test]
fn an_allowed_match_of_raw_does_not_hide_one_that_counts() {
    let pack = |entry: &str| {
        rules(&format!(
            "[rule.r]\ndescription = 'd'\non = ['tool-input']\n\
             match.any = [{{ command = 'xyz', raw = 'git push [a-z]+' }}]\n\
             [[allow]]\nrules = ['t/r']\n{entry}\nreason = 'made up'"
        ))
    };
    // The quote is open, so not all commands are read.
    let input = r#"{"command": "git push fork; git push origin; echo 'x"}"#;
    for (entry, hits) in [
        ("text = ['git push fork']", 1),
        ("text = ['git push *']", 1),
        ("tools = ['bash']", 0),
        ("tools = ['sh']", 1),
    ] {
        assert_eq!(hits_of_call(&pack(entry), "bash", input), hits, "{entry}");
    }
}
