//! Syntax trees: patterns of ast-grep over trees of tree-sitter that grow with the code.
//!
//! This module owns the grammars, the patterns and the trees. It knows no rule: a match carries the number that its
//! owner gave the pattern. It does not know where the code comes from.

mod patterns;
mod snippet;

use std::borrow::Cow;

use ast_grep_core::language::Language;
use ast_grep_core::matcher::{Pattern, PatternBuilder, PatternError};
use ast_grep_core::tree_sitter::{LanguageExt, StrDoc, TSLanguage};

pub(crate) use patterns::{AstPatternError, AstPatternSet, AstPatternSource, check_pattern};
pub(crate) use snippet::{Budget, Snippet};

/// A language whose code can be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Grammar {
    Rust,
    Go,
    Python,
    JavaScript,
    TypeScript,
    Tsx,
}

impl Grammar {
    /// The number of grammars.
    const COUNT: usize = 6;

    /// Returns the grammar with this name in a rule; see [`Ast::LANGUAGES`](crate::rule::Ast::LANGUAGES).
    pub(crate) fn from_name(name: &str) -> Option<Grammar> {
        Some(match name {
            "rust" => Grammar::Rust,
            "go" => Grammar::Go,
            "python" => Grammar::Python,
            "javascript" => Grammar::JavaScript,
            "typescript" => Grammar::TypeScript,
            "tsx" => Grammar::Tsx,
            _ => return None,
        })
    }

    /// Returns the grammar of code in this language, named as in info strings and file extensions.
    pub(crate) fn from_language(language: &str) -> Option<Grammar> {
        Some(match language {
            "rust" | "rs" => Grammar::Rust,
            "go" | "golang" => Grammar::Go,
            "python" | "py" | "pyi" | "python3" | "py3" => Grammar::Python,
            "javascript" | "js" | "mjs" | "cjs" | "jsx" | "node" => Grammar::JavaScript,
            "typescript" | "ts" | "mts" | "cts" => Grammar::TypeScript,
            "tsx" => Grammar::Tsx,
            _ => return None,
        })
    }
}

impl Language for Grammar {
    fn pre_process_pattern<'q>(&self, query: &'q str) -> Cow<'q, str> {
        match self.expando_char() {
            '$' => Cow::Borrowed(query),
            sigil => Cow::Owned(with_sigil(query, sigil)),
        }
    }

    fn expando_char(&self) -> char {
        match self {
            // In these languages a `$` can be part of a name.
            Grammar::JavaScript | Grammar::TypeScript | Grammar::Tsx => '$',
            Grammar::Rust | Grammar::Go | Grammar::Python => 'µ',
        }
    }

    fn kind_to_id(&self, kind: &str) -> u16 {
        self.get_ts_language().id_for_node_kind(kind, true)
    }

    fn field_to_id(&self, field: &str) -> Option<u16> {
        let id = self.get_ts_language().field_id_for_name(field)?;
        Some(id.get())
    }

    fn build_pattern(&self, builder: &PatternBuilder<'_>) -> Result<Pattern, PatternError> {
        builder.build(|text| StrDoc::try_new(text, *self))
    }
}

impl LanguageExt for Grammar {
    fn get_ts_language(&self) -> TSLanguage {
        match self {
            Grammar::Rust => tree_sitter_rust::LANGUAGE.into(),
            Grammar::Go => tree_sitter_go::LANGUAGE.into(),
            Grammar::Python => tree_sitter_python::LANGUAGE.into(),
            Grammar::JavaScript => tree_sitter_javascript::LANGUAGE.into(),
            Grammar::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(),
            Grammar::Tsx => tree_sitter_typescript::LANGUAGE_TSX.into(),
        }
    }
}

/// Replaces each `$` of a metavariable by a letter, which every grammar reads as part of a name.
fn with_sigil(pattern: &str, sigil: char) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at(at);
        let name = from.trim_start_matches('$');
        let dollars = from.len() - name.len();
        let is_named = name.starts_with(|first: char| first == '_' || first.is_ascii_uppercase());
        let written = if is_named || dollars == 3 { sigil } else { '$' };
        out.push_str(before);
        out.extend(std::iter::repeat_n(written, dollars));
        rest = name;
    }
    out + rest
}

#[cfg(test)]
mod tests;
