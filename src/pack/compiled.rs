//! Compiled packs as bytes, so that a load need not parse TOML, check rules and parse patterns.
//!
//! The bytes hold the rules as they are after `extends`, overrides and lists, the syntax trees of their patterns, and which
//! patterns share an automaton. Automata are not stored: they are built when text first reaches them. A header comes
//! first: [`MAGIC`], the version of the format and of this crate, and a checksum of the rest.
//!
//! # Invariants
//!
//! 1. The bytes may come from anyone. Reading them returns an error or a pack. The checksum finds damage, not malice, so
//!    nothing relies on it.
//! 2. A rule that is more than patterns on text passes the checks of a rule made in code. What a plain rule may be is
//!    stated by [`is_plain`].
//! 3. The trees of a rule are those of its patterns, in the same order, if [`to_bytes`] wrote them. Bytes of another
//!    origin may have other trees: the rule then matches what its trees match.

mod codec;

use std::sync::Arc;

use super::check::fault::Fault;
use super::check::names::full_id_fault;
use super::check::{HostOptions, Loaded, rule_faults};
use super::compile::{
    self, LoweredPattern, PackTrees, RuleTrees, SizedTree, raw_patterns, text_patterns,
};
use super::compose::{ended_fault, ungranted_in_code};
use super::diagnostic::{Diagnostic, Report, code};
use super::escape::{self, quote};
use super::load_context::LoadContext;
use super::lock::Lock;
use super::schema::THEN;
use super::{Pack, PackHeader, ResolvedAllow};
use crate::program::{ChannelRules, MAX_FLAGS, code_texts, operand_texts};
use crate::rule::{Action, Channel, Condition, Fold, Pattern, PatternKind, Rule};
use crate::verdict::RuleId;
pub(super) use codec::{Encode, PackReader, PackWriter};
use ttsr_automata::encoding::{
    EncodedTrees, MalformedBytes, TreeEncoder, TreeTotals, write_number,
};
use ttsr_automata::{Matcher, MatcherLayout};

/// The first bytes. They are no UTF-8, so no rule file begins with them, and a change of line ends changes them.
const MAGIC: [u8; 8] = *b"\x89TTSRP\r\n";

/// The version of the format. A change of the codec must change it: other versions are refused.
const FORMAT: u32 = 3;

/// The version of the crate. What a rule means may change with it, so another version refuses the bytes.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The features that rules may need, one bit each.
mod feature {
    pub(super) const LOOKAROUND: u32 = 1;
    pub(super) const UNICODE: u32 = 1 << 1;
    pub(super) const AST: u32 = 1 << 2;

    pub(super) const ALL: [(u32, &str, bool); 3] = [
        (LOOKAROUND, "lookaround", cfg!(feature = "lookaround")),
        (UNICODE, "unicode", cfg!(feature = "unicode")),
        (AST, "ast", cfg!(feature = "ast")),
    ];
}

/// Returns true if the bytes begin like a compiled pack.
pub(super) fn is_compiled(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Returns the pack as bytes.
pub(super) fn to_bytes(pack: &Pack) -> Vec<u8> {
    let inner = &*pack.inner;
    // The trees of a pack that was read from bytes need not be those of its patterns.
    if let Some(source) = &inner.source {
        return source.to_vec();
    }
    let context = LoadContext::new(pack.limits());
    let rules = pack.rules();
    let trees = compile::lower_rules(rules, &context);
    let trees = trees.expect("the patterns were lowered when the pack was loaded");
    let mut encoder = TreeEncoder::default();
    let mut features = 0;
    let mut body = PackWriter::default();
    inner.headers.encode(&mut body);
    inner.lock.encode(&mut body);
    inner.allows.encode(&mut body);
    write_number(&mut body.bytes, rules.len() as u64);
    for (rule, trees) in rules.iter().zip(&trees.rules) {
        features |= features_of(&rule.condition);
        rule.encode(&mut body);
        for lowered in &trees.patterns {
            let LoweredPattern {
                tree,
                unless,
                confirmed_by,
            } = lowered;
            match confirmed_by {
                None => encode_tree(tree, &mut encoder, &mut body),
                Some(_) => {
                    // Parsed again, because the tree alone does not tell how its matches are verified.
                    features |= feature::LOOKAROUND;
                    write_number(&mut body.bytes, 0);
                }
            }
            let unless = unless.iter();
            unless.for_each(|unless| encode_tree(unless, &mut encoder, &mut body));
        }
        let others = trees.raws.iter().chain(&trees.codes);
        let others = others.chain(&trees.operands);
        others.for_each(|tree| encode_tree(tree, &mut encoder, &mut body));
    }
    let channels = pack.program().channels.iter().flatten();
    let layouts = channels.flat_map(ChannelRules::first_end_matchers);
    let layouts: Vec<Option<MatcherLayout>> = layouts.map(Matcher::layout).collect();
    layouts.encode(&mut body);
    let PackWriter { bytes, lists, .. } = body;
    let mut payload = PackWriter::default();
    features.encode(&mut payload);
    let classes = encoder.into_class_table();
    write_number(&mut payload.bytes, classes.len() as u64);
    payload.bytes.extend(classes);
    write_number(&mut payload.bytes, lists.len() as u64);
    lists
        .iter()
        .for_each(|list| list.to_vec().encode(&mut payload));
    payload.bytes.extend(bytes);
    with_header(&payload.bytes)
}

/// Returns the payload after its header.
pub(super) fn with_header(payload: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend(FORMAT.to_le_bytes());
    out.push(VERSION.len() as u8);
    out.extend(VERSION.as_bytes());
    out.extend(checksum(payload).to_le_bytes());
    out.extend(payload);
    out
}

/// Writes the tree with its length. The length 0 stands for a tree that has no binary form: its text is parsed again.
fn encode_tree(tree: &SizedTree, encoder: &mut TreeEncoder, out: &mut PackWriter) {
    let encoded = encoder.encode(&tree.tree.get()).unwrap_or_default();
    write_number(&mut out.bytes, encoded.len() as u64);
    out.bytes.extend(encoded);
}

/// Returns the features that a condition needs, except for look-around.
fn features_of(condition: &Condition) -> u32 {
    let folds = condition.patterns().flat_map(|pattern| &pattern.fold);
    let folds = folds.filter(|fold| matches!(fold, Fold::Nfkc | Fold::Confusables));
    let unicode = folds.fold(0, |_, _| feature::UNICODE);
    let ast = condition.ast.as_ref().map_or(0, |_| feature::AST);
    unicode | ast
}

/// The rules of a compiled pack, read and checked.
pub(super) struct CompiledRules {
    pub(super) loaded: Loaded,
    pub(super) trees: PackTrees,
}

/// Reads a compiled pack. `name` is its name in messages. If the report has an error, rules are missing.
pub(super) fn read(
    name: &str,
    bytes: &Arc<[u8]>,
    context: &LoadContext<'_>,
    options: &HostOptions,
) -> CompiledRules {
    let mut report = Report::default();
    let contents = payload(bytes).and_then(|at| {
        let contents = read_payload(bytes, at, context);
        contents.map_err(|_| damaged())?
    });
    let contents = contents.unwrap_or_else(|fault| {
        report.push(problem(name, None, fault));
        Contents::default()
    });
    let Contents {
        mut rules,
        trees,
        mut allows,
        headers,
        lock,
    } = contents;
    // In place: a rule is more than a kilobyte.
    for rule in &mut rules {
        let mut faults = Vec::new();
        if !is_plain(rule) {
            let whole = std::mem::replace(rule, Rule::new("", Vec::new()));
            (*rule, faults) = rule_faults(whole, context);
        }
        faults.extend(ungranted_in_code(rule, options.grants.as_deref()));
        let faults = faults.into_iter();
        faults.for_each(|fault| report.push(problem(name, Some(&rule.id), fault)));
    }
    allows.retain(|allow| match ended_fault(allow, options.today) {
        None => true,
        Some(fault) => {
            report.push(problem(name, None, fault));
            false
        }
    });
    let wanted = options.lock.iter();
    for message in wanted.flat_map(|wanted| wanted.differences(&lock)) {
        let fault = Fault::new(&code::LOCK_MISMATCH, message);
        let help = "review the changes, then write the lock again";
        report.push(problem("ttsr.lock", None, fault.with_help(help)));
    }
    let loaded = Loaded {
        rules,
        allows,
        headers,
        lock,
        report,
    };
    CompiledRules { loaded, trees }
}

fn problem(name: &str, rule: Option<&str>, fault: Fault) -> Diagnostic {
    Diagnostic {
        rule: rule.map(escape::all),
        help: fault.help,
        ..Diagnostic::from_file(fault.code, name, fault.message)
    }
}

/// Returns the fault of bytes that no version of this crate writes.
fn damaged() -> Fault {
    Fault::new(&code::COMPILED_DAMAGED, "the compiled pack is damaged")
        .with_help("compile it again: `ttsr compile`")
}

/// Checks the header. Returns the start of the payload.
fn payload(bytes: &[u8]) -> Result<usize, Fault> {
    if !is_compiled(bytes) {
        let fault = Fault::new(&code::COMPILED_DAMAGED, "these bytes are no compiled pack");
        return Err(fault.with_help("`ttsr compile` writes compiled packs"));
    }
    let mut reader = PackReader::new(bytes).bytes;
    let mut header = || {
        reader.bytes(MAGIC.len())?;
        let format = reader.bytes(4)?;
        let version = reader.text()?;
        let is_known = format == FORMAT.to_le_bytes() && version == VERSION;
        Ok::<_, MalformedBytes>((is_known, version))
    };
    let (is_known, version) = header().map_err(|_| damaged())?;
    if !is_known {
        let message = format!(
            "ttsr {} has compiled this pack, and this is ttsr {VERSION}",
            quote(version)
        );
        let fault = Fault::new(&code::COMPILED_VERSION, message);
        return Err(fault.with_help("compile it again: `ttsr compile`"));
    }
    let sum = reader.bytes(8).map_err(|_| damaged())?;
    let at = reader.offset();
    match bytes
        .get(at..)
        .map(|payload| checksum(payload).to_le_bytes())
    {
        Some(found) if found == *sum => Ok(at),
        _ => Err(damaged()),
    }
}

/// The contents of a payload.
#[derive(Default)]
struct Contents {
    rules: Vec<Rule>,
    trees: PackTrees,
    allows: Vec<ResolvedAllow>,
    headers: Vec<PackHeader>,
    lock: Lock,
}

/// Reads the payload that begins at `at`. The inner error is a pack that this build cannot execute.
fn read_payload(
    bytes: &Arc<[u8]>,
    at: usize,
    context: &LoadContext<'_>,
) -> Result<Result<Contents, Fault>, MalformedBytes> {
    let mut reader = PackReader::new(bytes);
    reader.bytes.bytes(at)?;
    let features = u32::decode(&mut reader)?;
    let mut missing = feature::ALL.into_iter();
    let missing = missing.find(|(bit, _, is_built)| features & bit != 0 && !is_built);
    if let Some((_, feature, _)) = missing {
        let message =
            format!("a rule needs the feature `{feature}`, which this build does not have");
        return Ok(Err(Fault::new(&code::MISSING_FEATURE, message)));
    }
    let length = reader.bytes.length()?;
    let table = reader.bytes.offset()..reader.bytes.offset() + length;
    reader.bytes.bytes(length)?;
    let limits = context.limits.pattern_limits();
    let trees = Arc::new(EncodedTrees::new(Arc::clone(bytes), table, limits)?);
    let lists = Vec::<Vec<String>>::decode(&mut reader)?;
    reader.lists = lists.into_iter().map(Arc::from).collect();
    let headers = Vec::decode(&mut reader)?;
    let lock = Lock::decode(&mut reader)?;
    let allows: Vec<ResolvedAllow> = Vec::decode(&mut reader)?;
    let mut source = TreeSource {
        totals: trees.totals(),
        trees,
        context,
    };
    let count = reader.bytes.length()?;
    // Not more than the bytes that are left can be: a rule takes more than thirty.
    let room = count.min(reader.bytes.remaining() / 32);
    let mut rules: Vec<Rule> = Vec::with_capacity(room);
    let mut lowered = Vec::with_capacity(room);
    for _ in 0..count {
        let rule = Rule::decode(&mut reader)?;
        // In order and without repetition: rules are found by bisection.
        if rules.last().is_some_and(|last| last.id >= rule.id) {
            return Err(MalformedBytes);
        }
        lowered.push(source.rule(&rule, &mut reader)?);
        rules.push(rule);
    }
    let layouts = Vec::decode(&mut reader)?;
    let is_known = |rule: &RuleId| rule.index() < rules.len();
    let mut allowed = allows.iter().flat_map(|allow| &allow.rules);
    if reader.bytes.remaining() > 0 || !allowed.all(is_known) {
        return Err(MalformedBytes);
    }
    Ok(Ok(Contents {
        trees: PackTrees {
            rules: lowered,
            surely_fit: source.totals.surely_fit(),
            layouts,
        },
        rules,
        allows,
        headers,
        lock,
    }))
}

/// Reads the trees of rules.
struct TreeSource<'c, 'l> {
    trees: Arc<EncodedTrees>,
    totals: TreeTotals,
    context: &'c LoadContext<'l>,
}

impl TreeSource<'_, '_> {
    fn rule(
        &mut self,
        rule: &Rule,
        reader: &mut PackReader<'_>,
    ) -> Result<RuleTrees, MalformedBytes> {
        let context = self.context;
        let mut patterns = Vec::new();
        for (_, pattern) in text_patterns(&rule.condition) {
            let lower = || LoweredPattern::lower(rule, pattern, context).ok();
            // Of a pattern that is parsed again, the exception is parsed as well.
            let (mut lowered, is_parsed) = match self.tree(reader)? {
                Some(tree) => (LoweredPattern::new(tree), false),
                None => (lower().ok_or(MalformedBytes)?, true),
            };
            if is_parsed {
                self.totals.add(&lowered.tree.tree.get());
            }
            if pattern.unless.is_some() {
                let unless = self.tree(reader)?;
                lowered.unless = Some(match unless {
                    Some(unless) => unless,
                    None => {
                        let unless = lower().and_then(|lowered| lowered.unless);
                        self.parsed(unless)?
                    }
                });
            }
            patterns.push(lowered);
        }
        let mut raws = Vec::new();
        for (_, raw) in raw_patterns(&rule.condition) {
            let tree = self.tree(reader)?;
            raws.push(match tree {
                Some(tree) => tree,
                None => self.parsed(SizedTree::lower_raw(raw, context).ok())?,
            });
        }
        let mut codes = Vec::new();
        for text in rule.condition.patterns().flat_map(code_texts) {
            let tree = self.tree(reader)?;
            codes.push(match tree {
                Some(tree) => tree,
                None => self.parsed(SizedTree::lower_operand(text, context).ok())?,
            });
        }
        let mut operands = Vec::new();
        for text in rule.condition.patterns().flat_map(operand_texts) {
            let tree = self.tree(reader)?;
            let parsed = || SizedTree::lower_operand(text, context);
            operands.push(tree.map_or_else(parsed, Ok).map_err(|_| MalformedBytes)?);
        }
        Ok(RuleTrees {
            patterns,
            raws,
            codes,
            operands,
        })
    }

    /// Reads the next tree, or `None` if it has no binary form.
    fn tree(&mut self, reader: &mut PackReader<'_>) -> Result<Option<SizedTree>, MalformedBytes> {
        let length = reader.bytes.length()?;
        let at = reader.bytes.offset();
        reader.bytes.bytes(length)?;
        if length == 0 {
            return Ok(None);
        }
        let (tree, states) = self.trees.tree(at..at + length, &mut self.totals)?;
        Ok(Some(SizedTree { tree, states }))
    }

    /// Counts a tree that was parsed, if it could be.
    fn parsed(&mut self, tree: Option<SizedTree>) -> Result<SizedTree, MalformedBytes> {
        let tree = tree.ok_or(MalformedBytes)?;
        self.totals.add(&tree.tree.get());
        Ok(tree)
    }
}

/// Returns true if the rule has nothing that only the checks of a rule can judge: any of some patterns breaks it, and its
/// action needs no options. The stream, the session and the rest of the load accept all values of the fields that are not
/// tested here; globs and sizes are checked when the rules are compiled.
fn is_plain(rule: &Rule) -> bool {
    let Condition {
        any,
        all,
        sequence,
        none,
        within,
        first,
        last,
        line,
        count,
        capture,
        repetition,
        leak,
        limit,
        script,
        unknown_name,
        doom_loop,
        ast,
    } = &rule.condition;
    let has_any_only = !any.is_empty()
        && all.is_empty()
        && sequence.is_empty()
        && none.is_empty()
        && within.is_none()
        && first.is_none()
        && last.is_none()
        && !line
        && count.is_none()
        && repetition.is_none()
        && !leak
        && limit.is_none()
        && script.is_none()
        && unknown_name.is_none()
        && doom_loop.is_none()
        && ast.is_none();
    let reads_text = any.iter().all(is_plain_text);
    let reads_commands = capture.is_none() && any.iter().all(is_plain_command);
    let is_simple_action = match rule.action {
        Action::Observe | Action::Warn | Action::Inject | Action::Retry | Action::Abort => true,
        Action::Redact => reads_text && !rule.on.contains(&Channel::Error),
        _ => false,
    };
    has_any_only
        && (reads_text || reads_commands)
        && full_id_fault(&rule.id).is_none()
        && !rule.on.is_empty()
        && is_simple_action
        && rule.retry.then.is_none_or(|then| THEN.contains(&then))
        && rule.consult.is_none()
        && rule.header.is_none()
}

fn is_plain_text(pattern: &Pattern) -> bool {
    pattern.kind != PatternKind::Command && pattern.command.is_none()
}

/// Returns true if the command has at most as many flags and subcommands as its progress can count, and other commands
/// only directly below it.
fn is_plain_command(pattern: &Pattern) -> bool {
    const MAX_NAMES: usize = 7;
    let is_single = |pattern: &Pattern| {
        let command = pattern.command.as_deref();
        let flags = command.map_or(0, |command| command.flags.len());
        let has_names = !pattern.text.is_empty() && pattern.text.split(' ').count() <= MAX_NAMES;
        pattern.kind == PatternKind::Command
            && has_names
            && flags <= MAX_FLAGS
            && pattern.region.is_empty()
            && pattern.fold.is_empty()
            && pattern.unless.is_none()
    };
    let mut related = related_commands(pattern);
    is_single(pattern)
        && related.all(|related| is_single(related) && related_commands(related).next().is_none())
}

fn related_commands(pattern: &Pattern) -> impl Iterator<Item = &Pattern> {
    let commands = pattern.command.iter();
    let related = commands.flat_map(|it| [&it.pipe_to, &it.pipe_from, &it.runs]);
    related.flatten().map(|related| &**related)
}

/// Returns the checksum of the payload. Every step is a bijection of the sum, so a change of up to eight bytes in one
/// place always changes it.
fn checksum(payload: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let step = |sum: u64, word: u64| {
        let mixed = (sum ^ word).wrapping_mul(FACTOR);
        mixed ^ mixed >> 29
    };
    let (words, rest) = payload.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let sum = words.fold(payload.len() as u64, step);
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    step(sum, u64::from_le_bytes(last))
}

#[cfg(test)]
mod tests;
