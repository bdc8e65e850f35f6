//! The faults of `match.ast`: patterns that are not code of its languages, and builds without the feature.

use super::fault::Fault;
#[cfg(feature = "ast")]
use crate::ast::{AstPatternError, Grammar};
use crate::pack::diagnostic::code;
use crate::rule::Ast;

/// Returns the fault of a pattern in the first of `languages` that it is not code of.
#[cfg(feature = "ast")]
pub(in crate::pack) fn pattern_fault(languages: &[String], pattern: &str) -> Option<Fault> {
    languages.iter().find_map(|name| {
        let fault = crate::ast::check_pattern(Grammar::from_name(name)?, pattern)?;
        Some(match fault {
            AstPatternError::NoCode(why) => {
                let message = format!("this pattern is not code in `{name}`: {why}");
                Fault::new(&code::AST_PATTERN, message).with_help(
                    "write a whole statement, expression or declaration; `$X` matches one node, \
                     `$$$X` any number",
                )
            }
            AstPatternError::Everything => Fault::new(
                &code::MATCHES_EMPTY,
                "this pattern matches every piece of code",
            )
            .with_help("write code around the metavariable"),
        })
    })
}

/// Returns no fault: without grammars the whole rule is refused.
#[cfg(not(feature = "ast"))]
pub(in crate::pack) fn pattern_fault(_: &[String], _: &str) -> Option<Fault> {
    None
}

/// Returns the faults of `ast`, without those of its patterns.
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
        let fault = Fault::new(&code::CONTRADICTION, "`ast` has no pattern");
        found.push(fault.with_help(form));
    }
    let known = |name: &&String| !Ast::LANGUAGES.contains(&name.as_str());
    found.extend(ast.languages.iter().find(known).map(|name| {
        let message = format!("`ast` does not read the language `{name}`");
        Fault::new(&code::BAD_VALUE, message).with_help(Ast::LANGUAGES.join(", "))
    }));
    found
}

/// Returns the faults of the patterns of a rule made in code.
pub(in crate::pack) fn pattern_faults(ast: &Ast) -> impl Iterator<Item = Fault> {
    let patterns = ast.any.iter().chain(&ast.inside).chain(&ast.not);
    patterns.filter_map(|pattern| pattern_fault(&ast.languages, pattern))
}
