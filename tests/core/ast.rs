//! `match.ast`: rules with patterns of ast-grep, in edits and fenced blocks, under every split.

use serde_json::json;
use ttsr::{Channel, Limits, Pack, PartId};

const RULES: &str = include_str!("../data/ast/rules.toml");
const PART: PartId = PartId(0);

/// A hit: its rule, the matched text, its start and end, and when it was certain.
type Told = (String, String, u64, u64, u64);

fn read(pack: &Pack, channel: Channel, text: &[u8], cuts: &[usize]) -> Vec<Told> {
    let mut stream = pack.stream();
    stream.open(PART, channel);
    let _ = stream.set_tool(PART, "write", "call");
    let mut hits = Vec::new();
    let mut from = 0;
    for &to in cuts.iter().chain([&text.len()]) {
        hits.extend_from_slice(&stream.push(PART, &text[from..to]));
        from = to;
    }
    hits.extend_from_slice(&stream.finish());
    hits.sort_by_key(|hit| (hit.rule, hit.decided));
    let told = hits.iter().map(|hit| {
        let rule = pack.rule(hit.rule).id.clone();
        let start = stream.start(hit).unwrap_or_default();
        let matched = stream.matched(hit).to_owned();
        (rule, matched, start, hit.end, hit.decided)
    });
    told.collect()
}

/// Returns the hits, and asserts that they are the same whole, byte by byte and at two-way cuts.
fn found(pack: &Pack, channel: Channel, text: &str) -> Vec<Told> {
    let text = text.as_bytes();
    let whole = read(pack, channel, text, &[]);
    let bytes: Vec<usize> = (1..text.len()).collect();
    assert_eq!(read(pack, channel, text, &bytes), whole, "byte by byte");
    for cut in (1..text.len()).step_by(1 + text.len() / 40) {
        assert_eq!(read(pack, channel, text, &[cut]), whole, "cut at {cut}");
    }
    whole
}

fn names(told: &[Told]) -> Vec<&str> {
    let rules = told.iter().map(|(rule, ..)| rule.as_str());
    rules.map(|rule| rule.rsplit('/').next().unwrap()).collect()
}

/// Returns the first language of a rule, and the name of a file in it.
fn of_rule(rule: &ttsr::Rule) -> (String, String) {
    let language = rule.condition.ast.as_ref().unwrap().languages[0].clone();
    let file = if language == "go" { "a.go" } else { "a.ts" };
    (file.to_owned(), language)
}

#[test]
fn every_example_decides_in_files_patches_and_fenced_blocks() {
    let pack = Pack::from_toml(RULES).unwrap();
    let mut cases = 0;
    for (id, rule) in pack.rules().iter().enumerate() {
        let (file, language) = of_rule(rule);
        let one = Pack::builder().rule(rule.clone()).build().unwrap();
        assert_eq!(id, pack.find(&rule.id).unwrap().index());
        let examples = rule.examples.matching.iter().map(|text| (text, 1));
        let others = rule.examples.not_matching.iter().map(|text| (text, 0));
        for (text, hits) in examples.chain(others) {
            let patch: String = text.lines().map(|line| format!("+{line}\n")).collect();
            let patch = format!("*** Begin Patch\n*** Add File: {file}\n{patch}*** End Patch\n");
            for (channel, written) in [
                (
                    Channel::Text,
                    format!("So:\n\n```{language}\n{text}```\nDone.\n"),
                ),
                (
                    Channel::Text,
                    format!("> ~~~{language} x\n{}", quoted(text)),
                ),
                (Channel::Reasoning, format!("```{language}\n{text}")),
                (
                    Channel::ToolInput,
                    json!({"path": file, "content": text}).to_string(),
                ),
                (
                    Channel::ToolInput,
                    json!({"content": text, "path": file}).to_string(),
                ),
                (
                    Channel::ToolInput,
                    json!({"file_path": file, "old_string": "x", "new_string": text}).to_string(),
                ),
                (Channel::ToolInput, json!({"input": patch}).to_string()),
            ] {
                let mut rule = one.rules()[0].clone();
                rule.on = vec![channel];
                let pack = Pack::builder().rule(rule).build().unwrap();
                let told = found(&pack, channel, &written);
                assert_eq!(
                    told.len(),
                    hits,
                    "{} in {written}: {told:?}",
                    one.rules()[0].id
                );
                cases += 1;
            }
        }
    }
    println!("{cases} texts, each under all cuts");
    assert!(cases > 100);
}

fn quoted(text: &str) -> String {
    text.lines().map(|line| format!("> {line}\n")).collect()
}

#[test]
fn a_rule_decides_as_soon_as_its_node_is_complete() {
    let pack = Pack::from_toml(RULES).unwrap();
    let text =
        "```go\nfunc f(n int) {\n\tfor i := 0; i < n; i++ {\n\t\tg(i)\n\t}\n\th()\n\tk()\n}\n```\n";
    let told = found(&pack, Channel::Text, text);
    let end_of_next_line = text.find("\tk()").unwrap() as u64;
    let start = text.find("for").unwrap() as u64;
    let end = text.find("\n\th()").unwrap() as u64;
    assert_eq!(
        told,
        [(
            "shapes/go-range-int".to_owned(),
            "for i := 0; i < n; i++ {\n\t\tg(i)\n\t}".to_owned(),
            start,
            end,
            end_of_next_line
        )]
    );
}

#[test]
fn places_are_those_of_the_input_as_delivered() {
    let pack = Pack::from_toml(RULES).unwrap();
    let code = "if (\"é\") {}\nif (timer) clearTimeout(timer);\nf();\n";
    let input = json!({"path": "x/a.tsx", "content": code}).to_string();
    let told = found(&pack, Channel::ToolInput, &input);
    assert_eq!(names(&told), ["ts-redundant-clear-guard"]);
    assert_eq!(told[0].1, "if (timer) clearTimeout(timer);");
    assert_eq!(told[0].2 as usize, input.find("if (timer)").unwrap());
    assert_eq!(told[0].3 as usize, input.find("\\nf()").unwrap());
    // A match at the end of the code ends with its last byte, however that byte is written.
    for last in [";", "\\u003b"] {
        let input =
            format!(r#"{{"path":"a.js","content":"if (timer) clearTimeout(timer){last}"}}"#);
        let told = found(&pack, Channel::ToolInput, &input);
        assert_eq!(told.len(), 1, "{input}");
        assert_eq!(told[0].3 as usize, input.len() - 2, "{input}");
    }
}

#[test]
fn code_whose_comments_are_told_apart_is_read_as_one() {
    let text = format!(
        "{RULES}\n[rule.todo]\ndescription = 'd'\non = ['text']\n\
         match.any = [{{ literal = 'TODO', region = 'comment' }}]\nexamples.match = ['x']\n"
    );
    let pack = Pack::from_toml(&text).unwrap();
    let text = "```go\nfunc f(n int) {\n\tfor i := 0; i < n; i++ { // TODO\n\t\tg(i)\n\t}\n}\n```\n\
                ```go\nfunc g() {\n```\n";
    let told = found(&pack, Channel::Text, text);
    assert_eq!(names(&told), ["go-range-int", "todo"]);
}

#[test]
fn unchanged_code_of_an_edit_is_not_added() {
    let pack = Pack::from_toml(RULES).unwrap();
    let old = "function stop() {\n  if (timer) clearTimeout(timer);\n  a();\n}\n";
    let other = old.replace("a()", "b()");
    let edit =
        |new: &str| json!({"path": "a.js", "old_string": old, "new_string": new}).to_string();
    assert!(found(&pack, Channel::ToolInput, &edit(&other)).is_empty());
    // New lines before and after it do not touch the match.
    let around = other.replace("function stop", "function halt");
    assert!(found(&pack, Channel::ToolInput, &edit(&around)).is_empty());
    let guard = "if (timer) clearTimeout(timer);\n";
    let (was, is) = (
        format!("a();\n{guard}b();\n"),
        format!("c();\n{guard}d();\n"),
    );
    let input = json!({"path": "a.js", "old_string": was, "new_string": is}).to_string();
    assert!(found(&pack, Channel::ToolInput, &input).is_empty());
    let guarded = old.replace("  a();", "  if (job) {\n    clearInterval(job);\n  }");
    let told = found(&pack, Channel::ToolInput, &edit(&guarded));
    assert_eq!(told.len(), 1);
    assert!(told[0].1.starts_with("if (job)"), "{told:?}");
    // The new line adds the guard, although the statement in it existed.
    let wrapped = "function stop() {\n  if (timer)\n    clearTimeout(timer);\n}\n";
    let before = "function stop() {\n    clearTimeout(timer);\n}\n";
    let input = json!({"path": "a.js", "old_string": before, "new_string": wrapped}).to_string();
    assert_eq!(found(&pack, Channel::ToolInput, &input).len(), 1);
}

#[test]
fn other_languages_and_other_text_are_not_read() {
    let pack = Pack::from_toml(RULES).unwrap();
    let code = "if (timer) clearTimeout(timer);\n";
    for (channel, text) in [
        (Channel::Text, code.to_owned()),
        (Channel::Text, format!("```\n{code}```\n")),
        (Channel::Text, format!("```java\n{code}```\n")),
        (Channel::Text, format!("```js\n// {code}```\n")),
        (Channel::Text, format!("`{}`\n", code.trim())),
        (
            Channel::ToolInput,
            json!({"path": "a.php", "content": code}).to_string(),
        ),
        (Channel::ToolInput, json!({"content": code}).to_string()),
        (
            Channel::ToolInput,
            json!({"path": "a.js", "note": code}).to_string(),
        ),
        (
            Channel::ToolInput,
            json!({"path": "a.js", "old_string": code, "new_string": ""}).to_string(),
        ),
    ] {
        assert!(found(&pack, channel, &text).is_empty(), "{text}");
    }
}

#[test]
fn code_that_is_too_long_is_told_and_a_hit_of_critical_rules() {
    for (severity, hits) in [("info", 0), ("critical", 1)] {
        let text = format!(
            "schema = 1\n[pack]\nname = 't'\ngrants = ['abort']\n[rule.r]\ndescription = 'd'\nseverity = '{severity}'\n\
             on = ['text']\nmatch.ast = {{ languages = ['go'], any = ['panic($$$)'] }}\n\
             examples.match = ['panic(1)']\n"
        );
        let limits = Limits {
            ast_bytes: 64,
            ..Limits::default()
        };
        let pack = Pack::builder().toml("t.toml", &text).limits(limits).build();
        let pack = pack.unwrap();
        // The amount of text that follows is irrelevant.
        let lines = "print(1)\n".repeat(40);
        let reply = format!("```go\n{lines}panic(1)\n```\n");
        for size in [1, 7, reply.len()] {
            let mut stream = pack.stream();
            let mut decided = Vec::new();
            for delta in reply.as_bytes().chunks(size) {
                let hits = stream.push(PART, delta);
                decided.extend(hits.iter().map(|hit| hit.decided));
            }
            decided.extend(stream.finish().iter().map(|hit| hit.decided));
            assert_eq!(decided.len(), hits, "{severity}");
            assert_eq!(stream.counters().unconfirmed, 1, "{severity}");
            // Six bytes of fence, 64 that fit, and the byte that exceeds the limit.
            assert!(decided.iter().all(|&decided| decided == 71), "{decided:?}");
        }
    }
}

#[test]
fn code_whose_parse_takes_too_long_is_told_and_a_hit_of_critical_rules() {
    let code = "a<b>(c<d>(".repeat(6000);
    for (severity, hits) in [("info", 0), ("critical", 1)] {
        let text = format!(
            "schema = 1\n[pack]\nname = 't'\ngrants = ['abort']\n[rule.r]\ndescription = 'd'\nseverity = '{severity}'\n\
             on = ['text']\nmatch.ast = {{ languages = ['typescript'], any = ['f($X)'] }}\n\
             examples.match = ['f(1)']\n"
        );
        let limits = Limits {
            ast_steps: 0,
            ..Limits::default()
        };
        let pack = Pack::builder().toml("t.toml", &text).limits(limits).build();
        let pack = pack.unwrap();
        // The code ends with its reply, with a line, and before another line of the block, which is not read.
        for end in ["", "\n```\n", "\nf(1);\n```\n"] {
            let mut stream = pack.stream();
            let reply = format!("```typescript\n{code}{end}");
            let mut found = stream.push(PART, reply.as_bytes()).len();
            found += stream.finish().len();
            assert_eq!(found, hits, "{severity} {end:?}");
            assert_eq!(stream.counters().unconfirmed, 1, "{severity} {end:?}");
        }
    }
}

#[test]
fn code_may_be_as_long_as_its_bound() {
    let text = "schema = 1\n[pack]\nname = 't'\n[rule.r]\ndescription = 'd'\nseverity = 'info'\n\
                on = ['text']\nmatch.ast = { languages = ['go'], any = ['panic($$$)'] }\n\
                examples.match = ['panic(1)']\n";
    for (ast_bytes, hits) in [(18, 1), (17, 0)] {
        let limits = Limits {
            ast_bytes,
            ..Limits::default()
        };
        let pack = Pack::builder().toml("t.toml", text).limits(limits).build();
        let mut stream = pack.unwrap().stream();
        let mut found = stream.push(PART, b"```go\nprint(1)\npanic(1)\n```\n").len();
        found += stream.finish().len();
        assert_eq!(found, hits, "{ast_bytes}");
        assert_eq!(stream.counters().unconfirmed, 1 - hits as u64);
    }
}

#[test]
fn code_that_waits_for_the_name_of_its_file_waits_up_to_the_bound() {
    let text = "schema = 1\n[pack]\nname = 't'\n[rule.r]\ndescription = 'd'\nseverity = 'info'\n\
                on = ['tool-input']\nmatch.ast = { languages = ['go'], any = ['panic($$$)'] }\n\
                examples.match = ['panic(1)']\n";
    for (ast_bytes, unconfirmed) in [(40, 0), (39, 1)] {
        let limits = Limits {
            ast_bytes,
            ..Limits::default()
        };
        let pack = Pack::builder().toml("t.toml", text).limits(limits).build();
        let mut stream = pack.unwrap().stream();
        stream.open(PART, Channel::ToolInput);
        let code = "x".repeat(20);
        let input = json!([{ "content": code }, { "content": code }]);
        let _ = stream.push(PART, format!(r#"{{"files":{input}}}"#).as_bytes());
        let _ = stream.finish();
        assert_eq!(stream.counters().unconfirmed, unconfirmed, "{ast_bytes}");
    }
}

#[test]
fn patterns_that_make_no_sense_are_load_errors() {
    for (condition, code) in [
        ("languages = ['go'], any = ['func (']", "ast-pattern"),
        ("languages = ['go'], any = ['$X']", "matches-empty"),
        ("languages = ['cobol'], any = ['f()']", "bad-value"),
        ("languages = ['go']", "contradiction"),
        ("any = ['f()']", "contradiction"),
        ("languages = ['go'], any = []", "empty-value"),
        (
            "languages = ['go'], any = ['f()'], inside = ['x y']",
            "ast-pattern",
        ),
    ] {
        let text = format!(
            "schema = 1\n[pack]\nname = 't'\n[rule.r]\ndescription = 'd'\nmatch.ast = {{ {condition} }}\n\
             examples.match = ['x']\n"
        );
        let error = Pack::from_toml(&text).unwrap_err().to_string();
        assert!(
            error.contains(&format!("[{code}]")) || error.contains(code),
            "{condition}: {error}"
        );
    }
}
