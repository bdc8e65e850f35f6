//! The lowered patterns of rules: the syntax trees that matchers and programs are built of.

use std::sync::Arc;

use regex_syntax::hir::Hir;

use super::{CompileError, CompileErrorKind, raw_patterns, text_patterns};
use crate::pack::load_context::LoadContext;
use crate::pack::lower::{self, lower};
use crate::program::{code_texts, operand_texts};
use crate::rule::{Pattern, Rule};
use ttsr_automata::encoding::PatternTree;
use ttsr_automata::{MatcherLayout, fits_alphabet, pattern};

/// The lowered patterns of all rules of a pack, and the results of planning their automata.
#[derive(Debug, Default)]
pub(in crate::pack) struct PackTrees {
    /// In the order of the rules.
    pub(in crate::pack) rules: Vec<RuleTrees>,
    /// True if every set of these patterns has an alphabet, so that matchers may be built later.
    pub(in crate::pack) surely_fit: bool,
    /// The layouts of the matchers for first ends, if they are known: by channel with rules, then by view.
    pub(in crate::pack) layouts: Vec<Option<MatcherLayout>>,
}

/// The lowered patterns of one rule.
#[derive(Debug)]
pub(in crate::pack) struct RuleTrees {
    /// In the order of [`text_patterns`].
    pub(in crate::pack) patterns: Vec<LoweredPattern>,
    /// In the order of [`raw_patterns`].
    pub(in crate::pack) raws: Vec<SizedTree>,
    /// Of the patterns of commands: in the order of [`Condition::patterns`](crate::rule::Condition::patterns), then of
    /// [`code_texts`].
    pub(in crate::pack) codes: Vec<SizedTree>,
    /// Of the patterns of commands: in the order of [`Condition::patterns`](crate::rule::Condition::patterns), then of
    /// [`operand_texts`]. They are matched with single words, and no automaton is built of them.
    pub(in crate::pack) operands: Vec<SizedTree>,
}

/// A pattern on text, lowered.
#[derive(Debug)]
pub(in crate::pack) struct LoweredPattern {
    pub(in crate::pack) tree: SizedTree,
    /// The tree of [`Pattern::unless`].
    pub(in crate::pack) unless: Option<SizedTree>,
    /// The expression that confirms each end, for a pattern with look-around.
    pub(in crate::pack) confirmed_by: Option<String>,
}

/// A tree with the number of its states.
#[derive(Clone, Debug)]
pub(in crate::pack) struct SizedTree {
    pub(in crate::pack) tree: PatternTree,
    pub(in crate::pack) states: usize,
}

/// Lowers the patterns of checked rules.
pub(in crate::pack) fn lower_rules(
    rules: &[Rule],
    context: &LoadContext<'_>,
) -> Result<PackTrees, CompileError> {
    let lowered = rules.iter().map(|rule| {
        RuleTrees::lower(rule, context)
            .map_err(|error| CompileError::at(rule, CompileErrorKind::Pattern(error)))
    });
    let rules: Vec<RuleTrees> = lowered.collect::<Result<_, _>>()?;
    let hirs: Vec<_> = rules.iter().flat_map(RuleTrees::all).collect();
    let surely_fit = fits_alphabet(hirs.iter().map(|hir| &**hir));
    Ok(PackTrees {
        rules,
        surely_fit,
        layouts: Vec::new(),
    })
}

impl RuleTrees {
    fn lower(rule: &Rule, context: &LoadContext<'_>) -> Result<RuleTrees, pattern::PatternError> {
        let patterns = text_patterns(&rule.condition);
        let patterns = patterns.map(|(_, pattern)| LoweredPattern::lower(rule, pattern, context));
        let raws = raw_patterns(&rule.condition);
        let raws = raws.map(|(_, raw)| SizedTree::lower_raw(raw, context));
        let codes = rule.condition.patterns().flat_map(code_texts);
        let codes = codes.map(|text| SizedTree::lower_operand(text, context));
        let operands = rule.condition.patterns().flat_map(operand_texts);
        let operands = operands.map(|text| SizedTree::lower_operand(text, context));
        Ok(RuleTrees {
            patterns: patterns.collect::<Result<_, _>>()?,
            raws: raws.collect::<Result<_, _>>()?,
            codes: codes.collect::<Result<_, _>>()?,
            operands: operands.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the trees that automata are built of.
    fn all(&self) -> impl Iterator<Item = Arc<Hir>> {
        let patterns = self.patterns.iter();
        let trees = patterns.flat_map(|pattern| [&pattern.tree].into_iter().chain(&pattern.unless));
        let others = self.raws.iter().chain(&self.codes);
        trees.chain(others).map(|sized| sized.tree.get())
    }
}

impl LoweredPattern {
    /// Returns a pattern without look-around and without an exception.
    pub(in crate::pack) fn new(tree: SizedTree) -> LoweredPattern {
        LoweredPattern {
            tree,
            unless: None,
            confirmed_by: None,
        }
    }

    /// Lowers a pattern of `rule`.
    pub(in crate::pack) fn lower(
        rule: &Rule,
        pattern: &Pattern,
        context: &LoadContext<'_>,
    ) -> Result<LoweredPattern, pattern::PatternError> {
        let lowered = lower(pattern, &context.patterns)?;
        let exception = pattern.exception();
        let unless = exception.map(|exception| lower(&exception, &context.patterns));
        let unless = unless.transpose()?.map(|unless| SizedTree::new(unless.hir));
        let confirmed_by = lowered.confirmed_by();
        let states = pattern::states(&lowered.hir);
        let hir = match rule.condition.line && confirmed_by.is_none() {
            true => Arc::new(lower::line(&lowered.hir)),
            false => lowered.hir,
        };
        Ok(LoweredPattern {
            tree: SizedTree {
                tree: hir.into(),
                states,
            },
            unless,
            confirmed_by,
        })
    }
}

impl SizedTree {
    fn new(hir: Arc<Hir>) -> SizedTree {
        SizedTree {
            states: pattern::states(&hir),
            tree: hir.into(),
        }
    }

    /// Lowers an expression on an operand or on the code of a command.
    pub(in crate::pack) fn lower_operand(
        text: &str,
        context: &LoadContext<'_>,
    ) -> Result<SizedTree, pattern::PatternError> {
        Ok(SizedTree::new(context.patterns.parse(text)?))
    }

    /// Lowers the expression `raw` of a command.
    pub(in crate::pack) fn lower_raw(
        raw: &str,
        context: &LoadContext<'_>,
    ) -> Result<SizedTree, pattern::PatternError> {
        let lowered = lower(&Pattern::regex(raw), &context.patterns)?;
        Ok(SizedTree::new(lowered.hir))
    }
}
