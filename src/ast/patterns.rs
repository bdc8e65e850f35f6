//! What is looked for: patterns by grammar, and by the kinds of nodes they can match.

use std::borrow::Cow;

use ast_grep_core::matcher::{Matcher, Pattern, PatternError};
use ast_grep_core::meta_var::MetaVarEnv;
use ast_grep_core::tree_sitter::LanguageExt;
use ast_grep_core::{Doc, Node};

use super::Grammar;

/// Why a pattern cannot be looked for.
#[derive(Debug)]
pub(crate) enum AstPatternError {
    /// It is no code of the language, even with its metavariables; why.
    NoCode(String),
    /// It matches every node.
    Everything,
}

/// What is wrong with a pattern in that language.
pub(crate) fn check_pattern(grammar: Grammar, pattern: &str) -> Option<AstPatternError> {
    parse(grammar, pattern).err()
}

fn parse(grammar: Grammar, text: &str) -> Result<Pattern, AstPatternError> {
    let pattern = Pattern::try_new(text.trim(), grammar).map_err(|error| {
        AstPatternError::NoCode(match error {
            PatternError::NoContent(_) => "there is nothing in it".into(),
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

/// All that is looked for in code.
#[derive(Debug, Default)]
pub(crate) struct AstPatternSet {
    /// By [`Grammar`].
    tables: [GrammarPatterns; Grammar::COUNT],
}

/// What is looked for in code of one language.
#[derive(Default)]
pub(super) struct GrammarPatterns {
    patterns: Vec<AstPattern>,
    /// By kind of node, indices of `patterns`.
    by_kind: Vec<Vec<u32>>,
}

struct AstPattern {
    owner: u32,
    pattern: Pattern,
    /// It must stand in code of one of these shapes; none: anywhere.
    inside: Vec<Pattern>,
    /// It must not be of one of these shapes besides.
    not: Vec<Pattern>,
}

/// Patterns that belong together, as they are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AstPatternSource<'a> {
    pub(crate) any: &'a [String],
    pub(crate) inside: &'a [String],
    pub(crate) not: &'a [String],
}

impl AstPatternSet {
    /// Adds patterns for `owner`, which were found to be right.
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

    /// What is looked for in that language; none if nothing is.
    pub(super) fn of(&self, grammar: Grammar) -> Option<&GrammarPatterns> {
        Some(&self.tables[grammar as usize]).filter(|table| !table.patterns.is_empty())
    }

    /// Whether something is looked for in code of that language.
    pub(crate) fn reads(&self, grammar: Grammar) -> bool {
        self.of(grammar).is_some()
    }

    /// Who looks for something; one may come more than once.
    pub(crate) fn all_owners(&self) -> impl Iterator<Item = u32> {
        let patterns = self.tables.iter().flat_map(|table| &table.patterns);
        patterns.map(|entry| entry.owner)
    }

    /// Who looks for something in that language; one may come more than once.
    pub(crate) fn owners(&self, grammar: Grammar) -> impl Iterator<Item = u32> {
        let patterns = self.tables[grammar as usize].patterns.iter();
        patterns.map(|entry| entry.owner)
    }
}

impl GrammarPatterns {
    /// Whether some pattern may match a node of that kind.
    pub(super) fn wants(&self, kind: u16) -> bool {
        let patterns = self.by_kind.get(usize::from(kind));
        patterns.is_some_and(|patterns| !patterns.is_empty())
    }

    /// The owners of the patterns that match that node.
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
    /// A metavariable means the same in the pattern and around it.
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

/// Whether one of the patterns matches that node with metavariables that are bound already.
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

impl std::fmt::Debug for GrammarPatterns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} shapes", self.patterns.len())
    }
}
