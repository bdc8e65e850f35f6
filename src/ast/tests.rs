//! Code read in pieces gives the same matches as whole code, and patterns match as in ast-grep.

use ast_grep_core::matcher::Pattern;
use ast_grep_core::tree_sitter::LanguageExt;
use tree_sitter::Parser;

use super::{
    AstPatternError, AstPatternSet, AstPatternSource, Budget, Grammar, Snippet, check_pattern,
};
use ttsr_testing::Random;

const BUDGET: Budget = Budget { steps: 1000 };

/// For each language, a pattern, and code that is repeated and nested.
const KINDS: [(Grammar, &str, &[&str]); 6] = [
    (
        Grammar::Go,
        "for $I := 0; $I < $N; $I++ { $$$BODY }",
        &[
            "package p\n",
            "func f(n int) {\n\tfor i := 0; i < n; i++ {\n\t\tg(i)\n\t}\n}\n",
            "// for i := 0; i < n; i++ {}\n",
            "var x = map[string]int{\n\t\"a\": 1,\n}\n",
            "func (t T) m() {\n\tif a {\n\t\tfor j := 0; j < 3; j++ { h() }\n\t} else {\n\t\tb()\n\t}\n}\n",
            "for k := 0; k < 2; k++ {\n",
        ],
    ),
    (
        Grammar::Rust,
        "$X.unwrap()",
        &[
            "fn f() {\n    a.unwrap();\n}\n",
            "impl T {\n    fn g(&self) -> u8 {\n        self.x\n            .get()\n            .unwrap()\n    }\n}\n",
            "// a.unwrap()\n",
            "let s = \"b.unwrap()\";\n",
            "macro_rules! m { () => { c.unwrap() } }\n",
            "mod m {\n",
        ],
    ),
    (
        Grammar::Python,
        "print($$$A)",
        &[
            "try:\n    print(1)\nexcept:\n    pass\n",
            "def g(a):\n    try:\n        return print(a, b=2)\n    except:\n        return None\n",
            "# print(1)\n",
            "class C:\n    x = '''\nprint(1)\n'''\n",
            "try:\n    print(\n        f(),\n    )\nexcept ValueError:\n    pass\n",
            "while a:\n",
        ],
    ),
    (
        Grammar::JavaScript,
        "if ($X) clearTimeout($X)",
        &[
            "if (a) clearTimeout(a);\n",
            "function f() {\n  if (b)\n    clearTimeout(b)\n  else c();\n}\n",
            "/* if (a) clearTimeout(a) */\n",
            "const g = () => {\n  if (this.t) clearTimeout(this.t)\n}\n",
            "const s = `if (a) ${b} clearTimeout(a)`;\n",
            "class A {\n",
        ],
    ),
    (
        Grammar::TypeScript,
        "($X as { $$$B }).$P",
        &[
            "const n = (v as { n: string }).n;\n",
            "interface I {\n  a: number;\n}\n",
            "function f(x: unknown): string {\n  return (x as {\n    s: string;\n  }).s;\n}\n",
            "// (x as { s: string }).s\n",
            "type T = { a: (b: string) => void };\n",
            "namespace N {\n",
        ],
    ),
    (
        Grammar::Tsx,
        "<div>$$$</div>",
        &[
            "const a = <div>text</div>;\n",
            "export function C() {\n  return (\n    <div>\n      <p>{x}</p>\n    </div>\n  );\n}\n",
            "const b = <span>text</span>;\n",
            "// <div></div>\n",
            "const c = useMemo(() => <div>{d}</div>, []);\n",
            "function D() {\n",
        ],
    ),
];

/// Returns the matches that ast-grep finds in the whole text.
fn oracle(grammar: Grammar, pattern: &str, text: &str) -> Vec<(usize, usize)> {
    let root = grammar.ast_grep(text);
    let pattern = Pattern::new(pattern, grammar);
    let top = root.root();
    let found = top.dfs().filter(|node| node.matches(&pattern));
    let mut all: Vec<_> = found
        .map(|node| (node.range().start, node.range().end))
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns the matches found while the text grows by lines, and those found only at its end.
fn grown(grammar: Grammar, pattern: &str, text: &str) -> [Vec<(usize, usize)>; 2] {
    let mut shapes = AstPatternSet::default();
    shapes.add(7, grammar, sought(&[pattern.to_owned()]));
    read(&shapes, grammar, text)
}

/// Returns a condition of any of these patterns.
fn sought(any: &[String]) -> AstPatternSource<'_> {
    AstPatternSource {
        any,
        inside: &[],
        not: &[],
    }
}

fn read(shapes: &AstPatternSet, grammar: Grammar, text: &str) -> [Vec<(usize, usize)>; 2] {
    let (mut snippet, mut parser) = (Snippet::new(grammar), Parser::new());
    let (mut early, mut late) = (Vec::new(), Vec::new());
    for line in text.split_inclusive('\n') {
        snippet.add(line.as_bytes());
        if line.ends_with('\n') && snippet.is_due() {
            let on = |owner, range: std::ops::Range<usize>| {
                assert_eq!(owner, 7);
                early.push((range.start, range.end));
            };
            snippet.check(shapes, &mut parser, BUDGET, on).unwrap();
        }
    }
    let on = |_, range: std::ops::Range<usize>| late.push((range.start, range.end));
    snippet.finish(shapes, &mut parser, BUDGET, on).unwrap();
    early.sort_unstable();
    late.sort_unstable();
    [early, late]
}

#[test]
fn growing_code_has_the_matches_that_ast_grep_finds_in_the_whole() {
    let mut random = Random::new(5);
    let (mut texts, mut early, mut late, mut taken_back) = (0, 0, 0, 0);
    for (grammar, pattern, pieces) in KINDS {
        for _ in 0..150 {
            let count = 1 + random.below(12);
            let text: String = (0..count)
                .map(|_| pieces[random.below(pieces.len())])
                .collect();
            let whole = oracle(grammar, pattern, &text);
            let [first, last] = grown(grammar, pattern, &text);
            let mut all: Vec<_> = first.iter().chain(&last).copied().collect();
            all.sort_unstable();
            taken_back += all.iter().filter(|range| !whole.contains(range)).count();
            let missed: Vec<_> = whole.iter().filter(|range| !all.contains(range)).collect();
            assert!(missed.is_empty(), "{grammar:?}: {missed:?} in {text}");
            (texts, early, late) = (texts + 1, early + first.len(), late + last.len());
        }
    }
    println!(
        "{texts} texts: {early} found while they grew, {late} at the end, {taken_back} that the whole has not"
    );
    assert!(early > late, "most are found as soon as they are complete");
    assert!(taken_back * 200 <= early + late, "{taken_back}");
}

#[test]
fn an_else_that_may_come_is_waited_for() {
    let seek = |text: &str, not: &[&str]| {
        let not: Vec<String> = not.iter().map(|text| (*text).to_owned()).collect();
        let any = ["if ($X) clearTimeout($X)".to_owned()];
        let mut shapes = AstPatternSet::default();
        let sought = AstPatternSource {
            any: &any,
            inside: &[],
            not: &not,
        };
        shapes.add(7, Grammar::JavaScript, sought);
        read(&shapes, Grammar::JavaScript, text)
    };
    let not = ["if ($X) $Y\nelse $Z"];
    assert_eq!(
        seek("if (a) clearTimeout(a)\nelse b()\nc()\n", &not),
        [[], []]
    );
    assert_eq!(
        seek("if (a) clearTimeout(a)\nelse b()\nc()\n", &[]),
        [vec![(0, 31)], vec![]],
        "ast-grep does not look at the text after a pattern"
    );
    assert_eq!(
        seek("if (a) clearTimeout(a)\n", &not),
        [vec![], vec![(0, 22)]]
    );
    assert_eq!(
        seek("if (a) clearTimeout(a)\nb()\n", &not),
        [vec![(0, 22)], vec![]]
    );
}

#[test]
fn patterns_that_are_no_code_or_match_all_are_refused() {
    for (grammar, pattern) in [
        (Grammar::Go, "func ("),
        (Grammar::Rust, ""),
        (Grammar::Python, "a = 1\nb = 2"),
        (Grammar::TypeScript, "const = ;"),
    ] {
        let found = check_pattern(grammar, pattern);
        assert!(
            matches!(found, Some(AstPatternError::NoCode(_))),
            "{pattern}: {found:?}"
        );
    }
    for (grammar, _, _) in KINDS {
        let found = check_pattern(grammar, "$X");
        assert!(
            matches!(found, Some(AstPatternError::Everything)),
            "{grammar:?}: {found:?}"
        );
        assert!(check_pattern(grammar, "$$$").is_some(), "{grammar:?}");
    }
    for (grammar, pattern, _) in KINDS {
        assert!(check_pattern(grammar, pattern).is_none(), "{pattern}");
    }
}

#[test]
fn bytes_of_no_character_keep_their_places() {
    let mut snippet = Snippet::new(Grammar::Rust);
    snippet.add(b"a\xff\xfe\xc3.\n");
    assert_eq!(snippet.text(), "a???.\n");
}

#[test]
fn a_text_unlike_any_code_does_not_take_for_ever() {
    let mut shapes = AstPatternSet::default();
    shapes.add(0, Grammar::TypeScript, sought(&["f($X)".to_owned()]));
    let (mut parser, budget) = (Parser::new(), Budget { steps: 0 });
    let mut snippet = Snippet::new(Grammar::TypeScript);
    snippet.add("a<b>(c<d>(".repeat(6000).as_bytes());
    let looked = snippet.finish(&shapes, &mut parser, budget, |_, _| {});
    assert!(looked.is_err(), "it was given up");
    let mut snippet = Snippet::new(Grammar::TypeScript);
    snippet.add(b"f(1);\n");
    let mut found = 0;
    let looked = snippet.finish(&shapes, &mut parser, BUDGET, |_, _| found += 1);
    assert!(looked.is_ok() && found == 1, "the parser is as new");
}

#[test]
fn every_language_of_a_rule_has_a_grammar_also_in_info_strings() {
    for language in crate::rule::Ast::LANGUAGES {
        let grammar = Grammar::from_name(language);
        assert!(grammar.is_some(), "{language}");
        assert_eq!(grammar, Grammar::from_language(language));
    }
}

#[test]
fn kinds_and_fields_have_the_ids_that_the_grammar_gives_them() {
    use ast_grep_core::language::Language as _;
    let tree = Grammar::Rust.ast_grep("fn f() {}");
    let root = tree.root();
    let function = root.children().next().expect("one item");
    assert_eq!(
        Grammar::Rust.kind_to_id("function_item"),
        function.kind_id()
    );
    // `field_children` looks the field up by its id.
    let names: Vec<_> = function.field_children("name").collect();
    assert_eq!(names.len(), 1, "a function has one name");
    assert_eq!(names[0].text(), "f");
    assert_eq!(Grammar::Rust.field_to_id("no_such_field"), None);
}
