//! The classes of short texts, under every cut. The package in `oracle/` compares whole files with the grammars of
//! tree-sitter.

use super::*;
use crate::chunk::Language;
use crate::test_sink::{Recorder, Seen, cuts, skip_or_corpus};
use ttsr_testing::{Random, scale};

fn tag(language: &str) -> Tag {
    Tag {
        regions: RegionSet::CODE,
        language: Language::new(language),
        ..Tag::default()
    }
}

fn read(language: &str, deltas: &[&[u8]]) -> Vec<Seen> {
    let (mut code, mut recorder) = (CodeView::default(), Recorder::default());
    code.set_tag(tag(language), DecidedOffset::at_once(0), &mut recorder);
    let mut at = 0;
    for delta in deltas {
        if !delta.is_empty() {
            code.push(Chunk::verbatim(delta, at), &mut recorder);
        }
        at += delta.len() as u64;
    }
    code.cut(DecidedOffset::at_once(at), &mut recorder);
    recorder.seen
}

/// Returns a letter for each byte: `-` code, `c` comment, `s` string; a capital starts one directly after another.
fn picture(text: &[u8], seen: &[Seen]) -> String {
    let (mut picture, mut turned) = (String::new(), false);
    let (mut last, mut at) = ('-', 0);
    for one in seen {
        match *one {
            Seen::Byte {
                byte,
                tag,
                start,
                end,
                decided,
            } => {
                assert_eq!((byte, start, end), (text[at], at as u64, at as u64 + 1));
                assert!(end <= decided && decided <= end + 6);
                assert!(
                    tag.regions.contains(RegionSet::CODE),
                    "a tag that came in is lost"
                );
                let letter = letter(tag.regions);
                let next = turned && letter == last;
                picture.push(if next {
                    letter.to_ascii_uppercase()
                } else {
                    letter
                });
                (last, turned, at) = (letter, false, at + 1);
            }
            Seen::Turn(tag, ..) => {
                turned |= match last {
                    'c' => !tag.regions.contains(RegionSet::COMMENT),
                    's' => !tag.regions.contains(RegionSet::STRING),
                    _ => false,
                };
            }
            Seen::Cut(..) => {}
        }
    }
    assert_eq!(at, text.len(), "bytes are missing");
    picture
}

fn letter(regions: RegionSet) -> char {
    let is_in = |region: RegionSet| regions.contains(region);
    match (is_in(RegionSet::COMMENT), is_in(RegionSet::STRING)) {
        (true, true) => panic!("a byte is two things"),
        (true, false) => 'c',
        (false, true) => 's',
        (false, false) => {
            assert!(is_in(RegionSet::CODE_ONLY) && is_in(RegionSet::UNCOMMENTED));
            '-'
        }
    }
}

/// Returns the haystacks that a rule for that region reads, separated by `|`.
fn haystacks(region: RegionSet, seen: &[Seen]) -> String {
    let (mut text, mut ended) = (String::new(), false);
    for one in seen {
        match *one {
            Seen::Turn(tag, ..) => {
                ended |= !(tag.regions | tag.interrupted).contains(region);
            }
            Seen::Cut(..) => ended = true,
            Seen::Byte { byte, tag, .. } if tag.regions.contains(region) => {
                if std::mem::take(&mut ended) && !text.is_empty() {
                    text.push('|');
                }
                text.push(char::from(byte));
            }
            Seen::Byte { .. } => {}
        }
    }
    text
}

/// Returns the classes of the text, and asserts that they are the same for every cut.
fn check(language: &str, text: &[u8], random: &mut Random) -> (String, usize) {
    let whole = read(language, &[text]);
    let cases = cuts(text, random, |deltas| {
        assert_eq!(read(language, deltas), whole, "{language}: {deltas:?}");
    });
    (picture(text, &whole), cases + 1)
}

#[test]
fn comments_and_strings_are_what_the_pictures_say() {
    let cases = [
        ("rust", "a // b\nc", "--cccc--"),
        ("rust", "a /* /* */ */ b", "--ccccccccccc--"),
        ("rust", "/*/ a */b", "cccccccc-"),
        ("rust", "a / b \"//\"", "------ssss"),
        ("rust", "f(\"a\\\"b\")", "--ssssss-"),
        ("rust", "r#\"a\"b\"#;", "--ssssss-"),
        ("rust", "br\"\\\"x", "--sss-"),
        ("rust", "cr\"a\" xr\"\\\"\"", "--sss---ssss"),
        ("rust", "'a' '\\'' 'a: 'é' b'\"'", "sss-ssss-----ssss--sss"),
        ("rust", "&'a str", "-------"),
        ("rust", "\"a\"\"b\"", "sssSss"),
        ("rust", "\"a\nb\"", "sssss"),
        ("go", "`a\\`b'c'", "ssss-sss"),
        ("go", "\"a\nb", "ss--"),
        ("js", "`a${b+`c${{}}`}d`e", "ssss--ssss--ssSss-"),
        ("js", "a / b / c", "---------"),
        ("js", "x = /[/]\\//g;", "----sssssss--"),
        ("js", "#!/bin/'a\nb#c", "ccccccccc----"),
        ("js", "a.replace(/>/g)", "----------sss--"),
        ("js", "return /a/", "-------sss"),
        ("js", "a.return / 1", "------------"),
        ("js", "<a>b</a> // c", "---------cccc"),
        ("ts", "a /* b */ / c", "--ccccccc----"),
        ("c", "1'000 'a' //x", "------sss-ccc"),
        ("java", "\"\"\"a\"b\"\"\" \"\"", "sssssssss-ss"),
        ("css", "a { /* b */ url(//x) }", "----ccccccc-----------"),
        ("json", "{\"a\": \"b\"}", "-sss--sss-"),
        ("python", "f\"\"\"a\"b\"\"\"'' # c", "-sssssssssSs-ccc"),
        ("python", "'a\\\nb' 'c\nd", "ssssss-ss--"),
        ("python", "\"\"+''", "ss-ss"),
        ("sh", "a#b #c\n$# ${#d}", "----cc---------"),
        ("sh", "\"a $(b \"c\" (d) ) e\"", "sssss--sss-----ssss"),
        ("sh", "'a\\' $'b\\'c'", "ssss--ssssss"),
        ("sh", "a \\\" \\# b", "---------"),
        ("sh", "cat <<E 'x'\na\nE\nb", "--------sss-sss--"),
        (
            "sh",
            "cat <<-'E' <<F\na\n\tE\nb\nF\nc",
            "---------------ssss-sss--",
        ),
        ("sh", "a <<< b\nc", "---------"),
        ("toml", "a = '\\' # b", "----sss-ccc"),
        (
            "yaml",
            "a: don't # b\nc#d: 'e''f'",
            "---------ccc------ssssss",
        ),
        ("sql", "a - b -- c\n'd''e' \"f\"", "------cccc-ssssss-sss"),
        ("html", "<a b='c'>d'e<!-- f -->g", "-----sss----cccccccccc-"),
        // Multi-line strings, and strings that end with their line.
        ("sql", "'a\nb' c", "sssss--"),
        ("sh", "'a\nb' c", "sssss--"),
        ("sh", "\"a\nb\" c", "sssss--"),
        ("html", "<a b='c\nd'>", "-----sssss-"),
        ("yaml", "a: 'b\nc'", "---ss---"),
        ("toml", "a='b\nc'", "--ss--s"),
        ("css", "'a\nb'", "ss--s"),
        ("json", "\"a\nb\"", "ss--s"),
        ("rust", "b'a\n'", "-----"),
        ("go", "`a\nb`c", "sssss-"),
        // A backslash that is not an escape.
        ("sql", "'a\\' b", "ssss--"),
        ("html", "<a b='c\\'>", "-----ssss-"),
        // Bytes that start nothing in their language, directly after a string.
        ("python", "''//b", "ss---"),
        ("sql", "'a'`b`", "sss---"),
        // A `/` after a string does not start a regular expression.
        ("js", "=\"a\"/b/c", "-sss----"),
        ("js", "='a'/b/c", "-sss----"),
        ("js", "=`a`/b/c", "-sss----"),
        ("js", "=/a/ /b/c", "-sss-----"),
        ("js", "x++/b/c", "-------"),
        ("js", "x--/b/c", "-------"),
        ("js", "x+/b/c", "--sss-"),
        ("js", "(/b/)/c/", "-sss----"),
        ("js", "$/b/c", "-----"),
        ("js", "typeof /b/", "-------sss"),
        ("js", "ofx /b/c", "--------"),
        ("js", "/a\nb", "ss--"),
        ("js", "=/[\\]/]/", "-sssssss"),
        ("js", "=/\\[/a", "-ssss-"),
        // Templates and their escapes.
        ("js", "`\\`a`b", "sssss-"),
        ("js", "`\\${a}`b", "sssssss-"),
        ("js", "`$\\{a}`b", "sssssss-"),
        ("js", "`$${a}`b", "ssss-ss-"),
        ("js", "`$a{b}`c", "sssssss-"),
        ("js", "`${{}}`a", "sss--ss-"),
        ("sh", "$'a' b", "-sss--"),
        ("sh", "\"\\$(a)\"b", "sssssss-"),
        ("sh", "\"$(a $(b) )\"c", "sss-------ss-"),
        // Tags and comments of HTML.
        ("html", "<!x \"a\">", "--------"),
        ("html", "< \"a\"", "-----"),
        ("html", "<a \"b\">\"c\"", "---sss----"),
        ("html", "</a 'b'>", "----sss-"),
        ("html", "<!-a-->b", "--------"),
        ("html", "<!-->a-->b", "ccccccccc-"),
        ("html", "<!--a->b--->c", "cccccccccccc-"),
        ("html", "<!--a--b-->c", "ccccccccccc-"),
        // Character literals and lifetimes, of one to four bytes.
        ("rust", "'é' 'a", "ssss---"),
        ("rust", "'€' 'a", "sssss---"),
        ("rust", "'😀' 'a", "ssssss---"),
        ("rust", "'€x' \"", "-------s"),
        ("rust", "'' \"a\"", "---sss"),
        ("rust", "'''", "---"),
        ("rust", "'\n\"a\"", "--sss"),
        ("rust", "'a'b'\\x'", "sss-ssss"),
        // Heredocs and their delimiters.
        ("sh", "a << E\nb\nE\nc", "-------sss--"),
        ("sh", "a <<--E\nb\n-E\nc", "--------ssss--"),
        ("sh", "a <<'E F'\nb\nE F\nc", "----------sssss--"),
        ("sh", "a <<\"E'F\"\nb\nE'F\nc", "----------sssss--"),
        ("sh", "a <<'E\\F'\nb\nE\\F\nc", "----------sssss--"),
        ("sh", "a <<\\E\nb\nE\nc", "-------sss--"),
        ("sh", "a <<1\nb", "-------"),
        ("sh", "a << \nb", "-------"),
        ("sh", "a <<E-1.b;c\nE-1.b\nd", "------------sssss--"),
        ("sh", "a <<E\nEE\n E\nE\nb", "------sssssss--"),
        ("sh", "a <<-E\n\t\tE\nb", "-------sss--"),
        ("sh", "a <<E\n\tE\nb", "------ssss"),
        (
            "sh",
            "a <<E <<F <<G <<H <<I\nE\nF\nG\nH\nb",
            "----------------------s-s-s-s--",
        ),
        // Comments.
        ("rust", "/* a /* b */ c */d", "ccccccccccccccccc-"),
        ("c", "/* a /* b */ c", "cccccccccccc--"),
        ("rust", "/**/a", "cccc-"),
        ("rust", "/**//**/", "ccccCccc"),
        ("rust", "/***/a", "ccccc-"),
        ("rust", "/*/*/*/a*/*/b", "ccccccccccccc"),
        ("go", "//a\n/b", "ccc---"),
        ("css", "//a", "---"),
        ("sql", "/* a */ - --b", "ccccccc---ccc"),
        ("python", "a#b\n'c", "-cc-ss"),
        ("toml", "a#b", "-cc"),
        ("yaml", "[#a", "---"),
        ("yaml", "a\t#b", "--cc"),
        ("yaml", "['a', \"b\\\"\"]", "-sss--sssss-"),
        ("sh", "a;#b", "--cc"),
        ("sh", "a)#b", "--cc"),
        // Triple quotes.
        ("python", "'''a''b'''c", "ssssssssss-"),
        ("python", "'''a\\'''b'''c", "ssssssssssss-"),
        ("python", "''''a'''b", "ssssssss-"),
        ("toml", "'''a\\'''b", "ssssssss-"),
        ("java", "'''a'", "ssSss"),
        ("java", "\"\"\"a\\\"\"\"b\"\"\"", "ssssssssssss"),
        ("c", "\"\"\"a\"", "ssSss"),
        // Raw strings.
        ("rust", "r##\"a\"#b\"##c", "---ssssssss-"),
        ("rust", "r#\"a\"\"#b", "--sssss-"),
        ("rust", "r\"\\\"a", "-sss-"),
        ("rust", "xr#\"a\"#", "---sss-"),
        ("rust", "#\"a\\\"b\"#", "-ssssss-"),
        ("c", "1'0'a'", "------"),
        ("c", "x1'a'", "--sss"),
        ("c", "0x1'f 'a'", "------sss"),
    ];
    let (mut random, mut wrong) = (Random::new(1), Vec::new());
    for (language, text, expected) in cases {
        let (picture, _) = check(language, text.as_bytes(), &mut random);
        if picture != expected {
            wrong.push(format!(
                "({language:?}, {text:?}, {picture:?}), not {expected}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn strings_are_reduced_to_quotes_and_comments_are_left_out() {
    let mut wrong = Vec::new();
    for (language, text, code_only, uncommented) in [
        (
            "py",
            "f(\"a 'b'\", c) # d",
            "f(\"\", c) #",
            "f(\"a b\", c) ",
        ),
        ("py", "a = '''b\"c''' + d", "a = '' + d", "a = 'bc' + d"),
        ("py", "f'a{b}' 'c'", "f'' ''", "f'a{b}' 'c'"),
        ("py", "'' + a", "' + a", "' + a"),
        ("js", "f(`a${b}c`)", "f(`{b}`)", "f(`a${b}c`)"),
        ("js", "catch (e) {/* a */}", "catch (e) {/}", "catch (e) {}"),
        (
            "js",
            "/'/.test(a) // b\nc",
            "//.test(a) /\nc",
            "//.test(a) \nc",
        ),
        ("js", "a['eval']('b')", "a['']('')", "a['eval']('b')"),
        ("js", "\"a['eval'](b)\"", "\"\"", "\"a[eval](b)\""),
        ("js", "'a\\'b' \"c\"", "'' \"\"", "'a\\b' \"c\""),
        ("rust", "'a' &'b r#\"c\"#", "'' &'b r#\"#", "'a' &'b r#\"c#"),
        ("go", "`a\"b`+\"\"", "``+\"\"", "`ab`+\"\""),
        ("sh", "a \"b $(c) d\" # e", "a \"(c)\" #", "a \"b $(c) d\" "),
        ("sql", "a 'b''c' -- d", "a ' -", "a 'bc "),
        ("html", "a <!-- b -->c", "a <c", "a c"),
        ("none", "a 'b' # c", "", ""),
    ] {
        let seen = read(language, &[text.as_bytes()]);
        let read = [RegionSet::CODE_ONLY, RegionSet::UNCOMMENTED].map(|it| haystacks(it, &seen));
        if read != [code_only, uncommented] {
            wrong.push(format!("{text:?}: {read:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let seen = read("js", &[b"'a' /*b*/ 'c''d' //e\n//f"]);
    assert_eq!(haystacks(RegionSet::STRING, &seen), "'a'|'c'|'d'");
    assert_eq!(haystacks(RegionSet::COMMENT, &seen), "/*b*/|//e|//f");
}

const LANGUAGES: [&str; 13] = [
    "rust", "go", "tsx", "c", "java", "css", "json", "python", "bash", "toml", "yaml", "sql",
    "html",
];

/// Returns a text with many delimiters of comments and strings.
fn code_text(random: &mut Random) -> Vec<u8> {
    const TEXTS: [&[u8]; 46] = [
        b"a",
        b"r",
        b"br",
        b"#",
        b"##",
        b"\"",
        b"\"\"\"",
        b"'",
        b"'''",
        b"`",
        b"/",
        b"//",
        b"/*",
        b"*/",
        b"*",
        b"\\",
        b"\n",
        b"\r\n",
        b" ",
        b"$",
        b"${",
        b"$(",
        b"{",
        b"}",
        b"(",
        b")",
        b"<<",
        b"<<-",
        b"EOF",
        b"'EOF'",
        b"\nEOF\n",
        b"<",
        b"<!--",
        b"-->",
        b"--",
        b"-",
        b">",
        b"return",
        b"1",
        b"'a'",
        b"'\\''",
        b"\xC3\xA9",
        b"\xFF",
        b"\0",
        b"\t",
        b"=",
    ];
    let mut text = Vec::new();
    for _ in 0..random.below(24) {
        text.extend_from_slice(random.pick(&TEXTS));
    }
    text
}

#[test]
fn a_word_is_parted_from_the_one_before_wherever_the_text_is_cut() {
    let mut random = Random::new(3);
    for text in [
        "a return /'/;",
        "é\n\tnew/'/",
        "a  in /'/ b",
        "+ + /'/ x",
        ". new /'/",
    ] {
        let cases = check("tsx", text.as_bytes(), &mut random).1;
        assert!(cases > text.len(), "{text}");
    }
}

#[test]
fn generated_code_is_the_same_however_it_is_cut() {
    let mut random = Random::new(2);
    let (mut cases, mut texts, full) = (0, 0, scale(1_000_000));
    while cases < full {
        let text = code_text(&mut random);
        for language in LANGUAGES {
            cases += check(language, &text, &mut random).1;
            texts += 1;
        }
    }
    println!("code: {cases} cases of {texts} generated texts");
}

#[test]
fn the_corpus_is_the_same_however_it_is_cut() {
    let Some(texts) = skip_or_corpus() else {
        return;
    };
    let mut random = Random::new(3);
    let every = (100 / scale(100)).max(1);
    let mut cases = 0;
    for (index, text) in texts.iter().step_by(every).enumerate() {
        let language = LANGUAGES[index % LANGUAGES.len()];
        cases += check(language, text.as_bytes(), &mut random).1;
    }
    println!("code: {cases} cases of the corpus");
}

/// Returns the text of each run of one tag, in order.
fn turns(seen: &[Seen]) -> Vec<(u16, String)> {
    let mut turns: Vec<(u16, String)> = Vec::new();
    for one in seen {
        if let Seen::Byte { byte, tag, .. } = *one {
            match turns.last_mut() {
                Some(last) if last.0 == tag.regions.0 => last.1.push(byte as char),
                _ => turns.push((tag.regions.0, (byte as char).to_string())),
            }
        }
    }
    turns
}

#[test]
fn a_comment_goes_on_where_the_tag_turns_and_ends_where_the_text_is_cut() {
    let (mut code, mut recorder) = (CodeView::default(), Recorder::default());
    let added = Tag {
        regions: RegionSet::ADDED,
        ..tag("rs")
    };
    code.set_tag(tag("rs"), DecidedOffset::at_once(0), &mut recorder);
    code.push(Chunk::verbatim(b"/* a", 0), &mut recorder);
    code.set_tag(added, DecidedOffset::at_once(4), &mut recorder);
    code.push(Chunk::verbatim(b"b */ /", 4), &mut recorder);
    code.cut(DecidedOffset::at_once(10), &mut recorder);
    code.push(Chunk::verbatim(b"/ \"c", 10), &mut recorder);
    code.cut(DecidedOffset::at_once(14), &mut recorder);
    code.push(Chunk::verbatim(b"d /", 14), &mut recorder);
    // Buffered bytes do not form a comment with bytes under another tag.
    code.set_tag(tag("rs"), DecidedOffset::at_once(17), &mut recorder);
    code.push(Chunk::verbatim(b"/ \"e", 17), &mut recorder);
    code.set_tag(tag("none"), DecidedOffset::at_once(21), &mut recorder);
    code.push(Chunk::verbatim(b"// f", 21), &mut recorder);
    let with = |regions: RegionSet, text: &str| (regions.0, text.to_owned());
    let all = RegionSet::CODE_ONLY | RegionSet::UNCOMMENTED;
    let quote = RegionSet::STRING | all;
    let string = RegionSet::STRING | RegionSet::UNCOMMENTED;
    let slash = RegionSet::COMMENT | RegionSet::CODE_ONLY;
    assert_eq!(
        turns(&recorder.seen),
        [
            with(RegionSet::CODE | slash, "/"),
            with(RegionSet::CODE | RegionSet::COMMENT, "* a"),
            with(RegionSet::ADDED | RegionSet::COMMENT, "b */"),
            with(RegionSet::ADDED | all, " // "),
            with(RegionSet::ADDED | quote, "\""),
            with(RegionSet::ADDED | string, "c"),
            with(RegionSet::ADDED | all, "d /"),
            with(RegionSet::CODE | all, "/ "),
            with(RegionSet::CODE | quote, "\""),
            with(RegionSet::CODE | string, "e"),
            with(RegionSet::CODE, "// f"),
        ]
    );
}

#[test]
fn nesting_is_bounded() {
    let deep = "`${".repeat(10_000) + &"}`".repeat(10_000);
    let seen = read("js", &[deep.as_bytes()]);
    assert!(picture(deep.as_bytes(), &seen).starts_with("sssS"));
    let one_too_many = "`${a".repeat(DEPTH + 1);
    let seen = read("js", &[one_too_many.as_bytes()]);
    let picture_of_it = picture(one_too_many.as_bytes(), &seen);
    assert_eq!(picture_of_it.matches('-').count(), DEPTH);
    let word = format!("cat <<{}\nx\n", "E".repeat(10_000));
    let seen = read("sh", &[word.as_bytes()]);
    assert!(!picture(word.as_bytes(), &seen).contains('s'));
    for (len, strings) in [(64, 66), (65, 0)] {
        let word = format!("cat <<{0}\nx\n{0}\n", "E".repeat(len));
        let seen = read("sh", &[word.as_bytes()]);
        let picture = picture(word.as_bytes(), &seen);
        assert_eq!(picture.matches('s').count(), strings, "{len}");
    }
    let hashes = format!("r{0}\"a\"b{0}", "#".repeat(HASHES + 1));
    let seen = read("rust", &[hashes.as_bytes()]);
    assert!(picture(hashes.as_bytes(), &seen).contains("sss-"));
}

#[test]
fn a_byte_is_certain_as_soon_as_it_can_be() {
    let decided = |language: &str, text: &str| -> Vec<u64> {
        let seen = read(language, &[text.as_bytes()]);
        let bytes = seen.iter().filter_map(|one| match *one {
            Seen::Byte { end, decided, .. } => Some(decided - end),
            _ => None,
        });
        bytes.collect()
    };
    assert_eq!(decided("rust", "a/b // c"), [0, 1, 0, 0, 1, 0, 0, 0]);
    assert_eq!(decided("rust", "'a' &'b c"), [2, 1, 0, 0, 0, 2, 1, 0, 0]);
    assert_eq!(decided("html", "<!--a<b"), [3, 2, 1, 0, 0, 0, 0]);
    assert_eq!(decided("python", "\"\"\"a\"\"\""), [0; 7]);
}

#[test]
fn text_in_which_nothing_can_begin_is_skipped_at_once() {
    for (family, before, text, skipped) in [
        (Family::Rust, "", "let x = 1; 'a", 11),
        (Family::Rust, "// a", " b /* \n", 6),
        (Family::Rust, "/* a", " b c*/", 4),
        (Family::Rust, "\"a", " b c\\n\"", 4),
        (Family::Rust, "r#\"a", " b c\\n\"", 6),
        (Family::Python, "'''a", " b\nc'''", 4),
        (Family::Script, "`a", " b\nc${", 4),
        (Family::Shell, "<<E\nab", "c d\nE", 3),
    ] {
        let mut lexer = Lexer::new(family);
        let mut at = 0;
        while at < before.len() {
            at += usize::from(!matches!(
                lexer.step(before.as_bytes()[at]),
                LexStep::Resolved(_)
            ));
        }
        assert_eq!(lexer.skip(text.as_bytes()), skipped, "{before:?} {text:?}");
    }
}
