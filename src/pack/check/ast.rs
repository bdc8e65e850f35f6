//! `match.ast`: whether its patterns are code of its languages, and whether this build can look for them.

use super::fault::Fault;
#[cfg(feature = "ast")]
use crate::ast::{AstPatternError, Grammar};
use crate::pack::diagnostic::code;
use crate::rule::Ast;

/// What is wrong with a pattern in one of these languages.
#[cfg(feature = "ast")]
pub(super) fn pattern_fault(languages: &[String], pattern: &str) -> Option<Fault> {
    languages.iter().find_map(|name| {
        let fault = crate::ast::check_pattern(Grammar::named(name)?, pattern)?;
        Some(match fault {
            AstPatternError::NoCode(why) => {
                let message = format!("this pattern is no code of `{name}`: {why}");
                Fault::new(&code::AST_PATTERN, message).with_help(
                    "write a whole statement, expression or declaration; `$X` stands for one node, \
                     `$$$X` for any number",
                )
            }
            AstPatternError::Everything => Fault::new(
                &code::MATCHES_EMPTY,
                "this pattern matches every piece of code",
            )
            .with_help("put something around the metavariable"),
        })
    })
}

/// Without grammars no pattern is judged: the rule as a whole is refused.
#[cfg(not(feature = "ast"))]
pub(super) fn pattern_fault(_: &[String], _: &str) -> Option<Fault> {
    None
}

/// Everything that makes no sense in `ast`, but for patterns.
pub(super) fn faults(ast: &Ast) -> Vec<Fault> {
    if !cfg!(feature = "ast") {
        let message = "`ast` needs the feature `ast`, which this build of ttsr does not have";
        let fault = Fault::new(&code::MISSING_FEATURE, message);
        return vec![fault.with_help("build with `--features ast`, or leave the rule out")];
    }
    let form = "such as `{ languages = [\"go\"], any = [\"panic($$$)\"] }`";
    let mut found = Vec::new();
    if ast.languages.is_empty() {
        let fault = Fault::new(&code::CONTRADICTION, "`ast` names no language");
        found.push(fault.with_help(form));
    }
    if ast.any.is_empty() {
        let fault = Fault::new(&code::CONTRADICTION, "`ast` looks for nothing");
        found.push(fault.with_help(form));
    }
    let known = |name: &&String| !Ast::LANGUAGES.contains(&name.as_str());
    found.extend(ast.languages.iter().find(known).map(|name| {
        let message = format!("`{name}` is no language that `ast` reads");
        Fault::new(&code::BAD_VALUE, message).with_help(Ast::LANGUAGES.join(", "))
    }));
    found
}

/// What is wrong with the patterns of a rule made in code.
pub(super) fn pattern_faults(ast: &Ast) -> impl Iterator<Item = Fault> {
    let patterns = ast.any.iter().chain(&ast.inside).chain(&ast.not);
    patterns.filter_map(|pattern| pattern_fault(&ast.languages, pattern))
}
