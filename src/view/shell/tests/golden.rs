//! Commands and the haystacks they are; evasions and what of them is seen.

use super::*;

type Case = (&'static str, &'static [&'static str]);

const CASES: [Case; 99] = [
    // Plain commands and what ends them.
    ("ls", &["ls"]),
    ("rm -rf /", &["rm -rf /"]),
    ("  rm\t-rf   / ", &["rm -rf /"]),
    ("a; b", &["a", "b"]),
    ("a && b || c", &["a", "b", "c"]),
    ("a | b |& c", &["a", "b", "c"]),
    ("a & b", &["a", "b"]),
    ("a\nb\n\nc", &["a", "b", "c"]),
    ("(a; b)", &["a", "b"]),
    ("{ a; b; }", &["a", "b"]),
    ("! a", &["a"]),
    ("time a b", &["a b"]),
    ("if a; then b; else c; fi", &["a", "b", "c"]),
    ("while a; do b; done", &["a", "b"]),
    ("for x in a b; do rm $x; done", &["for x in a b", "rm $x"]),
    ("f() { rm a; }", &["f", "rm a"]),
    ("case $x in a) rm b;; esac", &["case $x in a", "rm b"]),
    ("a \\\n  b", &["a b"]),
    ("r\\\nm a", &["rm a"]),
    ("", &[]),
    (" ;; & ", &[]),
    // Comments, assignments.
    ("a # rm b", &["a"]),
    ("# rm b\na", &["a"]),
    ("a#b", &["a#b"]),
    ("X=1 rm a", &["rm a"]),
    ("X=1 Y+=\"2 3\" rm a", &["rm a"]),
    ("X=1", &[]),
    ("X=$(rm a)", &["rm a"]),
    ("\"X\"=1 rm", &["X=1 rm"]),
    ("echo X=1", &["echo X=1"]),
    // Quotes and escapes.
    ("\"rm\" -rf /", &["rm -rf /"]),
    ("r''m -rf /", &["rm -rf /"]),
    ("r\"\"m -rf /", &["rm -rf /"]),
    ("\\rm -rf /", &["rm -rf /"]),
    ("r\\m -rf /", &["rm -rf /"]),
    ("'rm' '-rf' '/'", &["rm -rf /"]),
    ("$'rm' -rf /", &["rm -rf /"]),
    ("$'\\x72m' -rf /", &["rm -rf /"]),
    ("$'\\162\\155' a", &["rm a"]),
    ("$'\\u0072m' a", &["rm a"]),
    ("$'\\U00000072\\x6d' $'\\U0001F600'", &["rm 😀"]),
    (
        "a $'\\a\\b\\e\\E\\f\\n\\r\\t\\v'",
        &["a \u{7}\u{8}\u{1B}\u{1B}\u{C}\n\r\t\u{B}"],
    ),
    ("a $'\\\\\\'\\\"\\?\\cA'", &["a \\'\"?\u{1}"]),
    (
        "a $'\\z\\xg\\ud800\\1625\\7m'",
        &["a \\z\\xg\u{FFFD}r5\u{7}m"],
    ),
    ("a $'\\x7", &["a \u{7}"]),
    ("a $'\\x", &["a \\x"]),
    ("a $'\\u", &["a \\u"]),
    ("$\"rm\" a", &["rm a"]),
    ("echo 'a; rm b'", &["echo a; rm b"]),
    ("echo \"a; rm b\"", &["echo a; rm b"]),
    ("echo \"a\\\"b\\$c\\d\"", &["echo a\"b$c\\d"]),
    ("echo 'it'\\''s'", &["echo it's"]),
    ("git commit -m \"a\nb\"", &["git commit -m a\nb"]),
    ("echo '' x", &["echo  x"]),
    ("'if' a", &["if a"]),
    ("/bin/rm a", &["/bin/rm a"]),
    ("echo rm", &["echo rm"]),
    // Substitutions and expansions.
    ("echo $(rm -rf /)", &["echo $()", "rm -rf /"]),
    ("echo \"$(rm -rf /)\"", &["echo $()", "rm -rf /"]),
    ("echo `rm -rf /` b", &["echo `` b", "rm -rf /"]),
    ("a $(b $(c) d) e", &["a $() e", "c", "b $() d"]),
    ("$(echo rm) -rf /", &["$() -rf /", "echo rm"]),
    ("diff <(rm a) <(rm b)", &["diff <() <()", "rm a", "rm b"]),
    ("tee >(rm a)", &["tee >()", "rm a"]),
    ("echo ${x:-$(rm a)}", &["echo ${x:-$()}", "rm a"]),
    ("echo ${x:-\"}\"} b", &["echo ${x:-}} b"]),
    ("echo $((1 + $(rm a)))", &["echo $((1 + $()))", "rm a"]),
    ("echo $(( (1) )) ; a", &["echo $(( (1) ))", "a"]),
    ("echo $( (rm a) )", &["echo $()", "rm a"]),
    ("rm${IFS}-rf${IFS}/", &["rm${IFS}-rf${IFS}/"]),
    ("rm $HOME/*", &["rm $HOME/*"]),
    ("{rm,-rf,/}", &["{rm,-rf,/}"]),
    // Redirections and heredocs.
    ("echo a > /etc/passwd", &["echo a", "> /etc/passwd"]),
    ("echo a>>b c", &["echo a c", ">> b"]),
    ("rm -rf / 2>/dev/null", &["rm -rf /", "> /dev/null"]),
    (">f rm a", &["rm a", "> f"]),
    ("a 2>&1 | b", &["a", ">& 1", "b"]),
    ("a &> f", &["a", "&> f"]),
    ("bash <<< 'rm a'", &["bash", "<<< rm a"]),
    ("cat <<EOF\nrm a\nEOF\nb", &["cat", "b"]),
    (
        "cat > f <<'EOF' && b\nrm a\nEOF\nc",
        &["cat", "> f", "b", "c"],
    ),
    ("cat <<-E\n\trm a\n\tE\nb", &["cat", "b"]),
    ("cat <<A <<B\n1\nA\n2\nB\nc", &["cat", "c"]),
    ("echo > $(rm a)", &["echo", "rm a", "> $()"]),
    // Prefixes and scripts.
    ("sudo rm -rf /", &["sudo rm -rf /", "rm -rf /"]),
    ("sudo -u root -E rm a", &["sudo -u root -E rm a", "rm a"]),
    ("env -i X=1 rm a", &["env -i X=1 rm a", "rm a"]),
    ("nohup sudo rm a &", &["nohup sudo rm a", "rm a"]),
    ("timeout -k 1 5 rm a", &["timeout -k 1 5 rm a", "rm a"]),
    (
        "find . | xargs -n 1 rm -f",
        &["find .", "xargs -n 1 rm -f", "rm -f"],
    ),
    ("sudo -l", &["sudo -l"]),
    ("bash -c 'rm a; b'", &["bash -c rm a; b", "rm a", "b"]),
    (
        "sudo sh -ec \"rm a\"",
        &["sudo sh -ec rm a", "sh -ec rm a", "rm a"],
    ),
    (
        "bash -o pipefail -c 'rm a'",
        &["bash -o pipefail -c rm a", "rm a"],
    ),
    (
        "bash -c 'sh -c \"rm a\"'",
        &["bash -c sh -c \"rm a\"", "sh -c rm a"],
    ),
    ("bash a.sh -c 'rm a'", &["bash a.sh -c rm a"]),
    // Not seen as commands, by design: what is run is made of text only when it runs.
    ("eval 'rm a'", &["eval rm a"]),
    ("x=rm; $x a", &["$x a"]),
    (
        "echo cm0gYQ== | base64 -d | sh",
        &["echo cm0gYQ==", "base64 -d", "sh"],
    ),
];

const CALLS: [Case; 8] = [
    (r#"{"command":["rm","-rf","/"]}"#, &["rm -rf /"]),
    (
        r#"{"command":["bash","-lc","rm a && b"]}"#,
        &["bash -lc rm a && b", "rm a", "b"],
    ),
    (r#"{"argv":["a;b","$(c)"],"cmd":"d"}"#, &["a;b $(c)", "d"]),
    (r#"{"cmd":["a"],"argv":["b"]}"#, &["a", "b"]),
    (
        r#"{"command":"echo \"a\\nb\"\nrm c"}"#,
        &["echo a\\nb", "rm c"],
    ),
    (r#"{"command":"a \"b","timeout":"rm"}"#, &["a b"]),
    (
        r#"{"command":["sudo","rm","X Y"]}"#,
        &["sudo rm X Y", "rm X Y"],
    ),
    ("rm -rf /", &["rm -rf /"]),
];

#[test]
fn commands_are_read_as_a_shell_would() {
    let mut random = Random::new(1);
    let (mut cases, mut wrong) = (0, Vec::new());
    for (input, want) in CASES {
        let (heard, cut) = every_cut(input.as_bytes(), ShellLimits::default(), false, &mut random);
        if haystacks(&heard) != want {
            wrong.push((input, haystacks(&heard), want));
        }
        cases += cut;
    }
    for (input, want) in CALLS {
        let (heard, cut) = every_cut(input.as_bytes(), ShellLimits::default(), true, &mut random);
        if haystacks(&heard) != want {
            wrong.push((input, haystacks(&heard), want));
        }
        cases += cut;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    println!(
        "shell: {cases} cases of {} golden commands",
        CASES.len() + CALLS.len()
    );
}

#[test]
fn bytes_keep_their_places() {
    let (heard, _) = view(
        [&b"'r'm  \\a $'\\n'"[..]],
        ShellLimits::default(),
        false,
        false,
    );
    let places: Vec<_> = heard
        .iter()
        .filter_map(|one| match *one {
            Heard::Byte(byte, start, end, decided) => Some((byte as char, start, end, decided)),
            _ => None,
        })
        .collect();
    assert_eq!(
        places,
        [
            ('r', 1, 2, 5),
            ('m', 3, 4, 5),
            (' ', 4, 6, 8),
            ('a', 7, 8, 8),
            (' ', 8, 9, 13),
            ('\n', 11, 13, 13),
        ]
    );
}

#[test]
fn nesting_is_bounded() {
    let text = "$(".repeat(100_000) + &"`\"${".repeat(10_000) + "rm a";
    let (heard, counters) = view([text.as_bytes()], ShellLimits::default(), false, false);
    assert!(counters.too_deep > 0 && !heard.is_empty());
    let many = "echo ".to_owned() + &"$(a b) ".repeat(50_000);
    let (heard, counters) = view([many.as_bytes()], ShellLimits::default(), false, false);
    let inner = haystacks(&heard).iter().filter(|one| *one == "a b").count();
    assert_eq!(inner, 50_000);
    assert!(counters.cut > 0);
}
