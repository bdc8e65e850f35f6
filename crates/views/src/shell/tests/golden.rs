//! Commands with their haystacks, and evasions with what the view sees of them.

use super::*;

type Case = (&'static str, &'static [&'static str]);

const CASES: [Case; 195] = [
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
    // Comments and assignments.
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
    ("a $'b\"n$(c)}' d", &["a b\"n$(c)} d"]),
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
    // Wrappers and scripts.
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
    // Parentheses, backquotes and the bytes that close them.
    ("echo $( (rm a); b ) c", &["echo $() c", "rm a", "b"]),
    ("echo $( ((a)); b ) c", &["echo $() c", "a", "b"]),
    ("a `b 'c`d' e", &["a ``d e", "b c"]),
    ("a `b $'c`d' e", &["a ``d e", "b c"]),
    ("a 'b`c' d", &["a b`c d"]),
    ("a \"b `c \"d` e\" f", &["a b `` e f", "c d"]),
    ("`a # b` c", &["`` c", "a"]),
    ("a $(b # c)\n d) e", &["a $() e", "b", "d"]),
    ("echo $((1 + (2)) ) b", &["echo $((1 + (2)) ) b"]),
    ("a ${b:-'c}d'} e", &["a ${b:-c}d} e"]),
    ("a \"${b:-'c}\" d", &["a ${b:-'c} d"]),
    ("a $b$ $\"c\" $", &["a $b$ c $"]),
    ("a \"$'b'\" c", &["a $'b' c"]),
    // Operators.
    ("a &&b&&&c", &["a", "b", "c"]),
    ("a &>>f b", &["a b", "&>> f"]),
    ("a >|f <>g <&h", &["a", ">| f", "<> g", "<& h"]),
    ("a 12>f 3x>g", &["a 3x", "> f", "> g"]),
    ("a \"1\">f", &["a 1", "> f"]),
    ("a 1 2;3", &["a 1 2", "3"]),
    ("a 12x b", &["a 12x b"]),
    ("1>f a", &["a", "> f"]),
    ("a >f>g", &["a", "> f", "> g"]),
    ("a <(b)c", &["a <()c", "b"]),
    ("a>b(c)", &["a", "> b", "c"]),
    // Heredocs.
    ("cat <<'E F'\nrm\nE F\na", &["cat", "a"]),
    ("cat <<E\nEE\n E\nE \nE\na", &["cat", "a"]),
    ("cat <<-E\n\t\tE\na", &["cat", "a"]),
    ("cat <<E\n\tE\nE\na", &["cat", "a"]),
    ("cat <<\"E\"x\nEx\na", &["cat", "a"]),
    ("a $(cat <<E\nrm\nE\n) b", &["a $() b", "cat"]),
    (
        "cat <<1 <<2 <<3 <<4 <<5 <<6 <<7 <<8 <<9\n1\n2\n3\n4\n5\n6\n7\n8\na",
        &["cat", "a"],
    ),
    ("cat <<E", &["cat"]),
    ("cat <<\na", &["cat", "a"]),
    // Wrappers, with options that take a word and options that do not.
    ("/usr/bin/sudo rm a", &["/usr/bin/sudo rm a", "rm a"]),
    ("doas -u root rm a", &["doas -u root rm a", "rm a"]),
    ("nice -n 5 rm a", &["nice -n 5 rm a", "rm a"]),
    ("watch -n 1 rm a", &["watch -n 1 rm a", "rm a"]),
    ("ionice -c 2 -n 1 rm a", &["ionice -c 2 -n 1 rm a", "rm a"]),
    ("stdbuf -o L rm a", &["stdbuf -o L rm a", "rm a"]),
    ("xargs -0 -I {} rm {}", &["xargs -0 -I {} rm {}", "rm {}"]),
    ("exec -a x rm a", &["exec -a x rm a", "rm a"]),
    ("nohup rm a", &["nohup rm a", "rm a"]),
    ("command -v rm", &["command -v rm", "rm"]),
    ("builtin cd a", &["builtin cd a", "cd a"]),
    ("setsid rm a", &["setsid rm a", "rm a"]),
    ("busybox rm a", &["busybox rm a", "rm a"]),
    ("unbuffer rm a", &["unbuffer rm a", "rm a"]),
    ("chroot /x rm a", &["chroot /x rm a", "rm a"]),
    ("timeout 5 rm a", &["timeout 5 rm a", "rm a"]),
    ("sudo -n rm -u a", &["sudo -n rm -u a", "rm -u a"]),
    ("sudo -- rm a", &["sudo -- rm a", "rm a"]),
    ("sudo - a", &["sudo - a", "- a"]),
    ("env A=b C+=d rm a", &["env A=b C+=d rm a", "rm a"]),
    ("env 1=b rm", &["env 1=b rm", "1=b rm"]),
    ("env =b rm", &["env =b rm", "=b rm"]),
    ("\"sudo\" rm a", &["sudo rm a", "rm a"]),
    ("sudo sudo rm $(b)", &["sudo sudo rm $()", "b", "rm $()"]),
    ("sudo rm 'a b' 3 >f", &["sudo rm a b 3", "> f", "rm a b 3"]),
    ("a $(sudo rm b) c", &["a $() c", "sudo rm b", "rm b"]),
    ("sudoers a", &["sudoers a"]),
    // Shells and their options.
    ("sh -c 'rm a' b", &["sh -c rm a b", "rm a"]),
    ("zsh -c 'rm a'", &["zsh -c rm a", "rm a"]),
    ("dash -c 'rm a'", &["dash -c rm a", "rm a"]),
    ("ksh -c 'rm a'", &["ksh -c rm a", "rm a"]),
    ("ash -c 'rm a'", &["ash -c rm a", "rm a"]),
    ("/bin/bash -x -c 'rm a'", &["/bin/bash -x -c rm a", "rm a"]),
    ("bash +e -c 'rm a'", &["bash +e -c rm a", "rm a"]),
    ("bash --norc -c 'rm a'", &["bash --norc -c rm a", "rm a"]),
    ("bash --c 'rm a'", &["bash --c rm a"]),
    ("bash -O x -c 'rm a'", &["bash -O x -c rm a", "rm a"]),
    ("bash +eo x -c 'rm a'", &["bash +eo x -c rm a", "rm a"]),
    ("bash -c \"rm $(a)\"", &["bash -c rm $()", "a", "rm $()"]),
    ("bash -c", &["bash -c"]),
    ("bash -c ''", &["bash -c "]),
    (
        "sudo bash -c 'rm a > f'; b",
        &[
            "sudo bash -c rm a > f",
            "bash -c rm a > f",
            "rm a",
            "> f",
            "b",
        ],
    ),
    // Keywords, which lose their meaning in quotes.
    ("until a; do b; done", &["a", "b"]),
    ("if a; then b; elif c; then d; fi", &["a", "b", "c", "d"]),
    ("case x in a) b;; esac; c", &["case x in a", "b", "c"]),
    ("coproc a", &["a"]),
    ("{ a; } always { b; }", &["a", "b"]),
    ("i\\f a", &["if a"]),
    ("then=1 a", &["a"]),
    ("A-B=1 c", &["A-B=1 c"]),
    ("_a1=2 b", &["b"]),
    ("A+=1", &[]),
    ("A\"=1\" b", &["A=1 b"]),
    // Escapes.
    ("a \\\\ \\' \\\" \\$b", &["a \\ ' \" $b"]),
    ("a \"\\\\ \\' \\\" \\` \\\nb\"", &["a \\ \\' \" ` b"]),
    ("a $'\\u20ac\\u20acx\\U1F600'", &["a €€x😀"]),
    ("a $'\\x411\\101\\1011\\9'", &["a A1AA1\\9"]),
    ("a $'\\u'b' c", &["a \\ub c"]),
    ("a $'\\c", &["a \\c"]),
    ("a \\", &["a \\"]),
    ("a $'\\U110000'", &["a \u{FFFD}"]),
    ("é \u{20ac}; 😀 a é b", &["é €", "😀 a é b"]),
    // Not seen as commands, by design: the command is assembled only when it runs.
    ("eval 'rm a'", &["eval rm a"]),
    ("x=rm; $x a", &["$x a"]),
    (
        "echo cm0gYQ== | base64 -d | sh",
        &["echo cm0gYQ==", "base64 -d", "sh"],
    ),
];

const CALLS: [Case; 10] = [
    (r#"{"command":["rm","-rf","/"]}"#, &["rm -rf /"]),
    (
        r#"{"command":["bash","-lc","rm a && b"]}"#,
        &["bash -lc rm a && b", "rm a", "b"],
    ),
    (r#"{"argv":["a;b","$(c)"],"cmd":"d"}"#, &["a;b $(c)", "d"]),
    (r#"{"cmd":["a"],"argv":["b"]}"#, &["a", "b"]),
    (r#"{"command":["if","X=1","a"]}"#, &["if X=1 a"]),
    (r#"{"0":"rm","command":"a"}"#, &["a"]),
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
            wrong.push(format!(
                "({input:?}, &{:?}), not {want:?}",
                haystacks(&heard)
            ));
        }
        cases += cut;
    }
    for (input, want) in CALLS {
        let (heard, cut) = every_cut(input.as_bytes(), ShellLimits::default(), true, &mut random);
        if haystacks(&heard) != want {
            wrong.push(format!(
                "({input:?}, &{:?}), not {want:?}",
                haystacks(&heard)
            ));
        }
        cases += cut;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!(
        "shell: {cases} cases of {} golden commands",
        CASES.len() + CALLS.len()
    );
}

#[test]
fn bytes_keep_their_places() {
    let places = |text: &str| -> Vec<(char, u64, u64, u64)> {
        let (heard, _) = view([text.as_bytes()], ShellLimits::default(), false, false);
        let bytes = heard.iter().filter_map(|one| match *one {
            Heard::Byte(byte, start, end, decided) => Some((byte as char, start, end, decided)),
            _ => None,
        });
        bytes.collect()
    };
    assert_eq!(
        places("'r'm  \\a $'\\n'"),
        [
            ('r', 1, 2, 5),
            ('m', 3, 4, 5),
            (' ', 4, 6, 8),
            ('a', 7, 8, 8),
            (' ', 8, 9, 13),
            ('\n', 11, 13, 13),
        ]
    );
    assert_eq!(
        places("a  2>> b"),
        [
            ('a', 0, 1, 2),
            ('>', 4, 5, 8),
            ('>', 5, 6, 8),
            (' ', 4, 7, 8),
            ('b', 7, 8, 8),
        ]
    );
    // An escape that ends before the next byte does not include that byte.
    assert_eq!(places("$'\\7z'"), [('\u{7}', 2, 4, 6), ('z', 4, 5, 6)]);
    // Quoted digits are not a file descriptor.
    assert_eq!(
        places("a \"12\""),
        [
            ('a', 0, 1, 2),
            (' ', 1, 2, 4),
            ('1', 3, 4, 4),
            ('2', 4, 5, 5)
        ]
    );
    let (heard, _) = view([&b"a b; c"[..]], ShellLimits::default(), false, false);
    let cuts = heard.iter().filter_map(|one| match *one {
        Heard::Cut(end, decided) => Some((end, decided)),
        _ => None,
    });
    assert_eq!(cuts.collect::<Vec<_>>(), [(3, 4), (6, 6)]);
}

#[test]
fn a_word_longer_than_a_stretch_is_whole_and_ends_no_heredoc() {
    let long = "w".repeat(MAX_WORD + 44);
    for (text, want) in [
        (
            format!("{long} $({long} a)"),
            [format!("{long} $()"), format!("{long} a")],
        ),
        (
            format!("cat <<{long}\nb"),
            [format!("cat {long}"), "b".to_owned()],
        ),
    ] {
        let mut random = Random::new(3);
        let (heard, _) = every_cut(text.as_bytes(), ShellLimits::default(), false, &mut random);
        assert_eq!(haystacks(&heard), want);
    }
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

/// The chunks that a sink receives, each with its offsets.
#[derive(Default)]
struct Pieces(Vec<(String, &'static str)>);

impl ChunkSink for Pieces {
    fn set_tag(&mut self, _: Tag, _: DecidedOffset) {}

    fn push(&mut self, chunk: Chunk<'_>) {
        let emit_word = match chunk.offsets {
            OffsetMap::Verbatim(_) => "verbatim",
            OffsetMap::Late(_) => "late",
            OffsetMap::Words(_) => "words",
            OffsetMap::Replacement { .. } => "stand-in",
        };
        self.0
            .push((String::from_utf8_lossy(chunk.bytes).into_owned(), emit_word));
    }

    fn cut(&mut self, _: DecidedOffset) {
        self.0.push((String::new(), "cut"));
    }
}

/// Byte by byte the result is the same, and takes several times as long.
#[test]
fn plain_words_go_on_in_one_piece() {
    let mut wrong = Vec::new();
    let cases: [(&str, &[(&str, &str)]); 10] = [
        (
            "ls abcdé 12 b",
            &[
                ("ls", "verbatim"),
                (" abcdé", "words"),
                (" ", "stand-in"),
                ("12", "verbatim"),
                (" b", "words"),
                ("", "cut"),
            ],
        ),
        (
            "git commit -m x -- a b",
            &[
                ("git", "verbatim"),
                (" commit -m x -- a b", "words"),
                ("", "cut"),
            ],
        ),
        (
            "ls 12 a 34 b",
            &[
                ("ls", "verbatim"),
                (" 12", "verbatim"),
                (" a", "words"),
                (" 34", "verbatim"),
                (" b", "words"),
                ("", "cut"),
            ],
        ),
        (
            "ls a  b\tc d",
            &[
                ("ls", "verbatim"),
                (" a", "words"),
                (" ", "stand-in"),
                ("b", "words"),
                (" ", "stand-in"),
                ("c d", "words"),
                ("", "cut"),
            ],
        ),
        (
            "ls é b ü c",
            &[
                ("ls", "verbatim"),
                (" é", "words"),
                (" ", "stand-in"),
                ("b ü", "words"),
                (" ", "stand-in"),
                ("c", "words"),
                ("", "cut"),
            ],
        ),
        (
            "ls a;b c d\n",
            &[
                ("ls", "verbatim"),
                (" a", "words"),
                ("", "cut"),
                ("b", "verbatim"),
                (" c d", "words"),
                ("", "cut"),
            ],
        ),
        (
            "ls 'a b' c d",
            &[
                ("ls", "verbatim"),
                (" ", "stand-in"),
                ("a b", "verbatim"),
                (" c d", "words"),
                ("", "cut"),
            ],
        ),
        (
            "ls a>b c d",
            &[
                ("ls", "verbatim"),
                (" a", "words"),
                (" ", "stand-in"),
                ("c d", "words"),
                ("", "cut"),
                (">", "verbatim"),
                (" ", "stand-in"),
                ("b", "verbatim"),
                ("", "cut"),
            ],
        ),
        (
            "sudo ls a b",
            &[
                ("sudo", "verbatim"),
                (" ", "stand-in"),
                ("ls", "verbatim"),
                (" ", "stand-in"),
                ("a", "verbatim"),
                (" ", "stand-in"),
                ("b", "verbatim"),
                ("", "cut"),
                ("ls", "verbatim"),
                (" ", "stand-in"),
                ("a", "verbatim"),
                (" ", "stand-in"),
                ("b", "verbatim"),
                ("", "cut"),
            ],
        ),
        (
            "a $(b c d) e f",
            &[
                ("a", "verbatim"),
                (" ", "stand-in"),
                ("$", "verbatim"),
                ("(", "verbatim"),
                (")", "verbatim"),
                (" e f", "words"),
                ("", "cut"),
                ("b", "verbatim"),
                (" ", "stand-in"),
                ("c", "verbatim"),
                (" ", "stand-in"),
                ("d", "verbatim"),
                ("", "cut"),
            ],
        ),
    ];
    for (text, want) in cases {
        let (mut shell, mut chunks) = (ShellView::new(ShellLimits::default()), Pieces::default());
        shell.open_text();
        shell.push(&Chunk::verbatim(text.as_bytes(), 0), &mut chunks);
        let end = text.len() as u64;
        shell.close(DecidedOffset::at_once(end), &mut chunks);
        let got: Vec<(&str, &str)> = chunks
            .0
            .iter()
            .map(|(text, emit_word)| (&**text, *emit_word))
            .collect();
        if got != want {
            wrong.push(format!("({text:?}, &{got:?}),"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn nesting_beyond_the_bound_is_part_of_a_word_up_to_its_parenthesis() {
    let mut wrong = Vec::new();
    for (text, depth, want, too_deep) in [
        (
            "a $(b $(c (d) e) f) g",
            1,
            &["a $() g", "b $(c (d) e) f"][..],
            1,
        ),
        (
            "a $(b $(c (d) e) f) g",
            2,
            &["a $() g", "c", "d", "e", "b $() f"],
            0,
        ),
        ("a $(b) c", 0, &["a $(b) c"], 1),
        ("a $((1 + (2))) b", 0, &["a $((1 + (2))) b"], 1),
        ("a \"b $(c) d\" e", 1, &["a b $(c) d e"], 1),
        ("a 'b' c", 0, &["a b c"], 2),
        ("a $(b `c` d) e", 1, &["a $() e", "b `c` d"], 2),
        ("a $(b $(c ; d", 1, &["a $(", "b $(c ; d"], 1),
        ("a ${b} c", 0, &["a ${b} c"], 1),
    ] {
        let limits = ShellLimits {
            depth,
            ..ShellLimits::default()
        };
        let (heard, _) = every_cut(text.as_bytes(), limits, false, &mut Random::new(2));
        let counted = view([text.as_bytes()], limits, false, false).1;
        if (
            haystacks(&heard).iter().map(|it| &**it).collect::<Vec<_>>(),
            counted.too_deep,
        ) != (want.to_vec(), too_deep)
        {
            wrong.push(format!(
                "({text:?}, {depth}, &{:?}, {}),",
                haystacks(&heard),
                counted.too_deep
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_counts_of_a_script_are_added() {
    let limits = |depth, waiting| ShellLimits { depth, waiting };
    let text = "bash -c 'a $(b $(c) d)'";
    let (_, counters) = view([text.as_bytes()], limits(1, 1 << 10), false, false);
    assert_eq!((counters.too_deep, counters.cut), (1, 0));
    let text = format!("sh -c 'a $({})'", ">b".repeat(10));
    let (_, counters) = view([text.as_bytes()], limits(9, 26), false, false);
    assert_eq!((counters.cut, counters.long_scripts), (1, 0));
}

#[test]
fn a_long_wait_is_cut_and_a_long_script_is_not_read() {
    let mut wrong = Vec::new();
    for (text, waiting, want, counted) in [
        ("a $(bcd) e", 3, &["a $() e", "bcd"][..], [0, 0]),
        ("a $(bcde) f", 3, &["a $(", "bcde", ") f"], [1, 0]),
        ("a >bc d", 4, &["a d", "> bc"], [0, 0]),
        ("a >bc d", 3, &["a", "> bc", "d"], [1, 0]),
        ("sh -c 'rm a'", 4, &["sh -c rm a", "rm a"], [0, 0]),
        ("sh -c 'rm a'", 3, &["sh -c rm a"], [0, 1]),
        (
            "sh -c 'b $(cde)' f",
            8,
            &["sh -c b $(cde) f", "b $()", "cde"],
            [0, 0],
        ),
        ("sudo rm abc", 6, &["sudo rm abc", "rm abc"], [0, 0]),
        ("sudo rm abc", 5, &["sudo rm abc", "rm abc"], [1, 0]),
    ] {
        let limits = ShellLimits {
            waiting,
            ..ShellLimits::default()
        };
        let (heard, _) = every_cut(text.as_bytes(), limits, false, &mut Random::new(2));
        let counters = view([text.as_bytes()], limits, false, false).1;
        let got = [counters.cut, counters.long_scripts];
        assert_eq!(counters.total(), got[0] + got[1]);
        if (
            haystacks(&heard).iter().map(|it| &**it).collect::<Vec<_>>(),
            got,
        ) != (want.to_vec(), counted)
        {
            wrong.push(format!(
                "({text:?}, {waiting}, &{:?}, {got:?}),",
                haystacks(&heard)
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
