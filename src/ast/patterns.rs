//! The patterns, by grammar and by the kinds of nodes they can match.

use std::borrow::Cow;

use ast_grep_core::matcher::{Matcher, Pattern, PatternError};
use ast_grep_core::meta_var::MetaVarEnv;
use ast_grep_core::tree_sitter::LanguageExt;
use ast_grep_core::{Doc, Node};

use super::Grammar;

/// The reason why a pattern cannot be used.
#[derive(Debug)]
pub(crate) enum AstPatternError {
    /// It is not code of the language, even with its metavariables; holds the reason.
    NoCode(String),
    /// It matches every node.
    Everything,
}

/// Returns the error of a pattern in a language, if it has one.
pub(crate) fn check_pattern(grammar: Grammar, pattern: &str) -> Option<AstPatternError> {
    parse(grammar, pattern).err()
}

fn parse(grammar: Grammar, text: &str) -> Result<Pattern, AstPatternError> {
    let pattern = Pattern::try_new(text.trim(), grammar).map_err(|error| {
        AstPatternError::NoCode(match error {
            PatternError::NoContent(_) => "it is empty".into(),
            PatternError::MultipleNode(_) => "it is more than one statement or expression".into(),
            error => error.to_string(),
        })
    })?;
    if pattern.has_error() {
        let why = "tree-sitter cannot parse it as it stands";
        return Err(AstPatternError::NoCode(why.into()));
    }
    match pattern.potential_kinds() {
        Some(_) => Ok(pattern),
        None => Err(AstPatternError::Everything),
    }
}

/// The patterns of all languages.
#[derive(Debug, Default)]
pub(crate) struct AstPatternSet {
    /// Indexed by [`Grammar`].
    tables: [GrammarPatterns; Grammar::COUNT],
}

/// The patterns of one language.
#[derive(Debug, Default)]
pub(super) struct GrammarPatterns {
    patterns: Vec<AstPattern>,
    /// Indices in `patterns`, by kind of node.
    by_kind: Vec<Vec<u32>>,
}

#[derive(Debug)]
struct AstPattern {
    owner: u32,
    pattern: Pattern,
    /// A match must be inside a match of one of these. Empty: anywhere.
    inside: Vec<Pattern>,
    /// A match must not also match one of these.
    not: Vec<Pattern>,
}

/// The texts of the patterns of one condition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AstPatternSource<'a> {
    pub(crate) any: &'a [String],
    pub(crate) inside: &'a [String],
    pub(crate) not: &'a [String],
}

impl AstPatternSet {
    /// Adds the patterns of `owner`, which [`check_pattern`] has accepted.
    pub(crate) fn add(&mut self, owner: u32, grammar: Grammar, sought: AstPatternSource<'_>) {
        let right = |texts: &[String]| -> Vec<Pattern> {
            let parsed = texts.iter().map(|text| parse(grammar, text));
            parsed.filter_map(Result::ok).collect()
        };
        let table = &mut self.tables[grammar as usize];
        table
            .by_kind
            .resize(grammar.get_ts_language().node_kind_count(), Vec::new());
        for pattern in right(sought.any) {
            let index = table.patterns.len() as u32;
            for kind in &pattern.potential_kinds().unwrap_or_default() {
                if let Some(patterns) = table.by_kind.get_mut(kind) {
                    patterns.push(index);
                }
            }
            table.patterns.push(AstPattern {
                owner,
                pattern,
                inside: right(sought.inside),
                not: right(sought.not),
            });
        }
    }

    /// Returns the patterns of a language, or `None` if it has none.
    pub(super) fn for_grammar(&self, grammar: Grammar) -> Option<&GrammarPatterns> {
        Some(&self.tables[grammar as usize]).filter(|table| !table.patterns.is_empty())
    }

    /// Returns true if the language has patterns.
    pub(crate) fn reads(&self, grammar: Grammar) -> bool {
        self.for_grammar(grammar).is_some()
    }

    /// Returns the owners of all patterns. An owner can occur more than once.
    pub(crate) fn all_owners(&self) -> impl Iterator<Item = u32> {
        let patterns = self.tables.iter().flat_map(|table| &table.patterns);
        patterns.map(|entry| entry.owner)
    }

    /// Returns the owners of the patterns of a language. An owner can occur more than once.
    pub(crate) fn owners(&self, grammar: Grammar) -> impl Iterator<Item = u32> {
        let patterns = self.tables[grammar as usize].patterns.iter();
        patterns.map(|entry| entry.owner)
    }
}

impl GrammarPatterns {
    /// Returns true if a pattern can match a node of this kind.
    pub(super) fn wants(&self, kind: u16) -> bool {
        let patterns = self.by_kind.get(usize::from(kind));
        patterns.is_some_and(|patterns| !patterns.is_empty())
    }

    /// Returns the owners of the patterns that match the node.
    pub(super) fn matching<D: Doc>(&self, node: &Node<'_, D>) -> impl Iterator<Item = u32> {
        let patterns = self.by_kind.get(usize::from(node.kind_id()));
        let patterns = patterns.into_iter().flatten();
        let patterns = patterns.map(|&index| &self.patterns[index as usize]);
        patterns
            .filter(|entry| entry.matches(node))
            .map(|entry| entry.owner)
    }
}

impl AstPattern {
    /// Returns true if the node matches. A metavariable has the same value in the pattern and in `inside` and `not`.
    fn matches<D: Doc>(&self, node: &Node<'_, D>) -> bool {
        let mut bound = Cow::Owned(MetaVarEnv::new());
        let matched = self.pattern.match_node_with_env(node.clone(), &mut bound);
        matched.is_some()
            && !any_matches(&self.not, node, &bound)
            && (self.inside.is_empty()
                || node
                    .ancestors()
                    .any(|around| any_matches(&self.inside, &around, &bound)))
    }
}

/// Returns true if one of the patterns matches the node with the metavariables bound so far.
fn any_matches<'t, D: Doc>(
    patterns: &[Pattern],
    node: &Node<'t, D>,
    bound: &MetaVarEnv<'t, D>,
) -> bool {
    patterns.iter().any(|pattern| {
        let mut bound = Cow::Borrowed(bound);
        let matched = pattern.match_node_with_env(node.clone(), &mut bound);
        matched.is_some()
    })
}
