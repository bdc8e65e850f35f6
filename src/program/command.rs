//! The patterns over commands: which words a command must and must not have.
//!
//! All command patterns of a channel are in one [`CommandSet`], which finds the patterns for a program by its name.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::{LazyMatcher, LazyPike, PatternRole};
use crate::rule::{CommandRequirements, Pattern};
use crate::verdict::RuleId;
use ttsr_automata::encoding::PatternTree;
use ttsr_automata::pike::PikeCache;
use ttsr_automata::{Matcher, PatternId};
use ttsr_views::glob::{Glob, GlobError, GlobOptions, GlobScratch};
use ttsr_views::path::{ArgScope, PathScope, split_exclusion};

/// The most flags of one pattern: each is a bit.
pub(crate) const MAX_FLAGS: usize = 32;

/// The longest name of a program that is compared without an allocation, in bytes.
const NAME_BYTES: usize = 64;

/// The command patterns of a channel.
#[derive(Debug, Default)]
pub(crate) struct CommandSet {
    /// The patterns of rules, and the nested patterns of `pipe-to`, `pipe-from` and `runs`.
    patterns: Vec<CommandPattern>,
    /// The patterns for each name of a program without wildcards, in lower case.
    by_name: HashMap<Box<[u8]>, Vec<u32>>,
    /// The patterns whose program has wildcards, by glob: programs such as `python*` have many patterns, and a name is
    /// compared once with each glob.
    by_glob: Vec<(Glob, Vec<u32>)>,
    /// The index of each glob in `by_glob`.
    globs: HashMap<String, usize>,
    /// The patterns for every program: `*`.
    for_all: Vec<u32>,
    /// The home directory of the user who runs the commands, without a slash at the end, if the host says which.
    home: Option<Box<str>>,
    /// True if a rule holds text back until these patterns are decided.
    holds: bool,
    /// True if a pattern has `reads` or `file-is-code`, or a relation to a command whose output may get there by a file.
    follows_files: bool,
    /// The expressions of `code`, each once.
    codes: Vec<PatternTree>,
    /// The index of each text in `codes`.
    code_ids: HashMap<String, PatternId>,
    /// Searches for all of `codes` at once. `None` if there are none.
    code_matcher: Option<LazyMatcher>,
    /// The lists of globs of `reads`, each of which is compiled once.
    read_globs: HashMap<Vec<String>, ReadGlobs>,
}

/// Buffers of the matches of words with patterns.
#[derive(Debug, Default)]
pub(crate) struct CommandCache {
    globs: GlobScratch,
    pike: PikeCache,
}

/// The lists of globs of `reads` that match one of some files: a bit for each list, by its index. A list with a higher index
/// than there are bits is matched again each time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadMatches {
    is_known: u64,
    is_match: u64,
}

/// The words of a command that its patterns have requirements on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WordNeeds {
    /// Subcommands, flags or operands.
    pub(crate) arguments: bool,
    /// Files that it reads.
    pub(crate) files: bool,
    /// The code that it runs.
    pub(crate) code: bool,
}

/// The trees of the expressions of a rule, which its patterns take one after the other.
pub(crate) struct CommandTrees<'t> {
    /// In the order of [`operand_texts`].
    pub(crate) operands: &'t mut dyn Iterator<Item = PatternTree>,
    /// In the order of [`code_texts`].
    pub(crate) codes: &'t mut dyn Iterator<Item = PatternTree>,
}

/// The place of a pattern in its rule.
#[derive(Clone, Debug)]
pub(crate) struct CommandOwner {
    pub(crate) rule: RuleId,
    pub(crate) role: PatternRole,
    /// The arguments that the pattern applies to, in addition to the scope of its rule.
    pub(crate) arg: Option<Arc<ArgScope>>,
}

/// A compiled command pattern.
#[derive(Debug)]
pub(crate) struct CommandPattern {
    /// The rule of the pattern; `None` for a pattern of `pipe-to`, `pipe-from` or `runs`.
    pub(crate) owner: Option<CommandOwner>,
    subcommands: Vec<Glob>,
    flags: Vec<Vec<FlagSpelling>>,
    no_flags: Vec<FlagSpelling>,
    operand: Option<LazyPike>,
    operands_all: Option<LazyPike>,
    last_operand: Option<LazyPike>,
    directory: Option<LazyPike>,
    /// The index of the expression in the codes of the set.
    code: Option<PatternId>,
    min_operands: u32,
    max_operands: u32,
    env: Vec<(Glob, Option<Glob>)>,
    redirect_to: Option<FileGlobs>,
    reads: Option<ReadGlobs>,
    /// The bits of [`requirement`] that a match needs.
    required: u16,
    /// The pattern of the command that this one writes to.
    pub(crate) pipe_to: Option<u32>,
    /// The pattern of the command that writes to this one.
    pub(crate) pipe_from: Option<u32>,
    /// The pattern of a command that this one runs.
    pub(crate) runs: Option<u32>,
}

/// One spelling of a flag, with a glob on its value.
#[derive(Debug)]
struct FlagSpelling {
    name: Box<[u8]>,
    value: Option<Glob>,
}

/// The requirements of a pattern that a command has met so far.
#[derive(Clone, Debug)]
pub(crate) struct CommandProgress {
    pub(crate) pattern: u32,
    /// Number of subcommands that have matched.
    subcommands: u8,
    operands: u32,
    /// One bit for each entry of `flags`.
    flags: u32,
    /// The bits of [`requirement`] that are met.
    met: u16,
    pub(crate) state: ProgressState,
}

/// The spellings of the path that an operand or a working directory is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathSpellings<'a> {
    /// The normalized text.
    pub(crate) path: &'a [u8],
    /// The same path with `~` in place of the home directory, if it is written in full.
    pub(crate) below_home: Option<&'a [u8]>,
}

/// The state of a pattern for one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgressState {
    /// Requirements on the command itself are missing.
    Open,
    /// A word rules the match out.
    Refused,
    /// All requirements on the command itself are met.
    Met,
    /// The match was reported.
    Reported,
}

/// Requirements of a pattern besides its subcommands and flags, one bit each.
mod requirement {
    /// An operand matches `operand`.
    pub(super) const OPERAND: u16 = 1;
    /// An operand matches `operands-all`.
    pub(super) const OPERANDS_ALL: u16 = 1 << 1;
    pub(super) const ENV: u16 = 1 << 2;
    pub(super) const REDIRECT_TO: u16 = 1 << 3;
    pub(super) const READS: u16 = 1 << 4;
    pub(super) const STDIN_IS_CODE: u16 = 1 << 5;
    /// The command has ended: a later word could have ruled the match out.
    pub(super) const END: u16 = 1 << 6;
    /// The last operand so far matches `last-operand`.
    pub(super) const LAST_OPERAND: u16 = 1 << 7;
    /// There are at least `min-operands` operands.
    pub(super) const MIN_OPERANDS: u16 = 1 << 8;
    pub(super) const FILE_IS_CODE: u16 = 1 << 9;
    pub(super) const DIRECTORY: u16 = 1 << 10;
    /// A piece of code matches `code`.
    pub(super) const CODE: u16 = 1 << 11;
}

/// Globs on texts in which `*` matches everything.
const TEXT: GlobOptions = GlobOptions {
    literal_separator: false,
    case_insensitive: false,
    empty_alternates: true,
};

/// Globs on the names of programs. A file system or a shell may ignore case.
const NAME: GlobOptions = GlobOptions {
    case_insensitive: true,
    ..TEXT
};

fn spellings(entry: &str) -> Result<Vec<FlagSpelling>, GlobError> {
    let spelling = |text: &str| {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(Glob::new(value, TEXT)?)),
            None => (text, None),
        };
        let name = name.as_bytes().into();
        Ok(FlagSpelling { name, value })
    };
    entry.split('|').map(spelling).collect()
}

/// The most alternatives of a glob that are told apart.
const ALTERNATIVES: usize = 256;

/// Returns the alternatives of a glob without groups inside of others, each as a glob of its own. A glob with nested groups,
/// or with more than [`ALTERNATIVES`], is returned as it is: their number is the product of those of the groups.
pub(crate) fn alternatives(glob: &str) -> Vec<String> {
    let whole = || vec![glob.to_owned()];
    // A brace or a comma can be literal after a backslash or in a class.
    if glob.contains(['\\', '[']) {
        return whole();
    }
    let mut found = vec![String::new()];
    let mut rest = glob;
    while let Some((before, group)) = rest.split_once('{') {
        let Some((inner, after)) = group.split_once('}') else {
            return whole();
        };
        let names = inner.split(',').count();
        if inner.contains('{') || found.len() * names > ALTERNATIVES {
            return whole();
        }
        let with = |head: &String| {
            let names = inner.split(',').map(|name| format!("{head}{before}{name}"));
            names.collect::<Vec<_>>()
        };
        found = found.iter().flat_map(with).collect();
        rest = after;
    }
    found.iter_mut().for_each(|name| name.push_str(rest));
    found
}

/// Returns true if the glob matches nothing but its own text.
fn is_plain(glob: &str) -> bool {
    !glob.contains(['*', '?', '[', ']', '{', '}', '\\'])
}

/// Globs on files as a command names them. A path is relative to a folder that is not known, so a glob that begins with
/// `/` applies to absolute paths only.
#[derive(Debug)]
struct FileGlobs {
    absolute: Option<PathScope>,
    relative: Option<PathScope>,
    excluded: Option<PathScope>,
}

/// The globs of `reads`. Patterns with equal lists share them.
#[derive(Clone, Debug)]
struct ReadGlobs {
    /// The number of the list in its set.
    index: usize,
    files: Arc<FileGlobs>,
}

impl ReadGlobs {
    /// Compiles a list of globs, or takes it from `known`. Returns `None` for an empty list.
    fn new(
        globs: &[String],
        known: &mut HashMap<Vec<String>, ReadGlobs>,
    ) -> Result<Option<ReadGlobs>, GlobError> {
        if let Some(known) = known.get(globs) {
            return Ok(Some(known.clone()));
        }
        let Some(files) = FileGlobs::new(globs)? else {
            return Ok(None);
        };
        let list = ReadGlobs {
            index: known.len(),
            files: Arc::new(files),
        };
        known.insert(globs.to_vec(), list.clone());
        Ok(Some(list))
    }
}

impl ReadMatches {
    /// Returns true if the globs match one of the files. Calls `find` if the result is not known yet.
    fn get(&mut self, globs: &ReadGlobs, find: impl FnOnce(&FileGlobs) -> bool) -> bool {
        let bit = u32::try_from(globs.index).ok();
        let bit = bit.and_then(|index| 1u64.checked_shl(index)).unwrap_or(0);
        if self.is_known & bit != 0 {
            return self.is_match & bit != 0;
        }
        let is_match = find(&globs.files);
        self.is_known |= bit;
        self.is_match |= if is_match { bit } else { 0 };
        is_match
    }

    /// Forgets the lists that match no file, because there is another file.
    pub(crate) fn add_file(&mut self) {
        self.is_known = self.is_match;
    }
}

impl FileGlobs {
    fn new(globs: &[String]) -> Result<Option<FileGlobs>, GlobError> {
        let [mut absolute, mut relative, mut excluded] = [const { Vec::new() }; 3];
        for entry in globs {
            let (is_excluded, glob) = split_exclusion(entry);
            let globs = match glob.starts_with('/') {
                _ if is_excluded => &mut excluded,
                true => &mut absolute,
                false => &mut relative,
            };
            globs.push(glob.to_owned());
        }
        let scope = |globs: Vec<String>| {
            let scope = (!globs.is_empty()).then(|| PathScope::new(&globs));
            scope.transpose()
        };
        let files = FileGlobs {
            absolute: scope(absolute)?,
            relative: scope(relative)?,
            excluded: scope(excluded)?,
        };
        Ok((!globs.is_empty()).then_some(files))
    }

    fn is_match(&self, path: &str, scratch: &mut GlobScratch) -> bool {
        let mut applies = |scope: &Option<PathScope>| {
            let scope = scope.as_ref();
            scope.is_some_and(|scope| scope.contains_with(path, scratch))
        };
        let is_included =
            applies(&self.relative) || path.starts_with('/') && applies(&self.absolute);
        is_included && !applies(&self.excluded)
    }
}

impl CommandSet {
    /// Creates a set without patterns. `home` is the home directory of the user who runs the commands.
    pub(crate) fn new(home: Option<&str>) -> CommandSet {
        let home = home.map(|home| home.trim_end_matches('/'));
        CommandSet {
            home: home.filter(|home| !home.is_empty()).map(Box::from),
            ..CommandSet::default()
        }
    }

    /// Returns a normalized path below the home directory with `~` in place of that directory, and `None` for another
    /// path.
    pub(crate) fn with_tilde(&self, path: &[u8]) -> Option<Vec<u8>> {
        let rest = path.strip_prefix(self.home.as_deref()?.as_bytes())?;
        let is_below = rest.is_empty() || rest.starts_with(b"/");
        is_below.then(|| [b"~", rest].concat())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    pub(crate) fn holds(&self) -> bool {
        self.holds
    }

    /// Returns true if the files that commands read and write matter to a pattern.
    pub(crate) fn follows_files(&self) -> bool {
        self.follows_files
    }

    pub(crate) fn pattern(&self, index: u32) -> &CommandPattern {
        &self.patterns[index as usize]
    }

    /// Returns the rules of the patterns. A rule may be returned more than once.
    pub(crate) fn rules(&self) -> impl Iterator<Item = RuleId> {
        let owners = self.patterns.iter().filter_map(|it| it.owner.as_ref());
        owners.map(|owner| owner.rule)
    }

    /// Returns the matcher of the code that commands run, if a pattern has `code`.
    pub(crate) fn code_matcher(&self) -> Option<&Matcher> {
        self.code_matcher.as_deref()
    }

    /// Builds the matcher of the code that commands run, once all patterns are added.
    pub(crate) fn build_code_matcher<E>(
        &mut self,
        build: impl FnOnce(Vec<PatternTree>) -> Result<LazyMatcher, E>,
    ) -> Result<(), E> {
        if !self.codes.is_empty() {
            self.code_matcher = Some(build(std::mem::take(&mut self.codes))?);
        }
        Ok(())
    }

    /// Adds a pattern of a rule.
    pub(crate) fn add(
        &mut self,
        pattern: &Pattern,
        owner: CommandOwner,
        holds: bool,
        trees: &mut CommandTrees<'_>,
    ) -> Result<(), GlobError> {
        self.holds |= holds;
        self.add_pattern(pattern, Some(owner), trees)?;
        Ok(())
    }

    fn add_pattern(
        &mut self,
        pattern: &Pattern,
        owner: Option<CommandOwner>,
        trees: &mut CommandTrees<'_>,
    ) -> Result<u32, GlobError> {
        let operands = &mut *trees.operands;
        let mut compiled = CommandPattern::compile(pattern, owner, operands, &mut self.read_globs)?;
        let code = pattern.command.as_deref().and_then(|it| it.code.as_ref());
        compiled.code = code.and_then(|text| Some(self.add_code(text, trees.codes.next()?)));
        let related = pattern.command.as_deref();
        self.follows_files |= compiled.reads.is_some()
            || compiled.required & requirement::FILE_IS_CODE != 0
            || related.is_some_and(|it| it.pipe_to.is_some() || it.pipe_from.is_some());
        let index = self.patterns.len() as u32;
        self.patterns.push(compiled);
        // A glob without wildcards is an entry of a table, so most names of programs are matched with no glob.
        for name in alternatives(program(pattern)) {
            match &*name {
                "*" => self.for_all.push(index),
                name if is_plain(name) => {
                    let name = name.to_ascii_lowercase().into_bytes();
                    let patterns = self.by_name.entry(name.into()).or_default();
                    if patterns.last() != Some(&index) {
                        patterns.push(index);
                    }
                }
                glob => self.add_glob(glob, index)?,
            }
        }
        if let Some(to) = related.and_then(|command| command.pipe_to.as_deref()) {
            let to = self.add_pattern(to, None, trees)?;
            self.patterns[index as usize].pipe_to = Some(to);
        }
        if let Some(from) = related.and_then(|command| command.pipe_from.as_deref()) {
            let from = self.add_pattern(from, None, trees)?;
            self.patterns[index as usize].pipe_from = Some(from);
        }
        if let Some(run) = related.and_then(|command| command.runs.as_deref()) {
            let run = self.add_pattern(run, None, trees)?;
            self.patterns[index as usize].runs = Some(run);
        }
        Ok(index)
    }

    /// Adds a pattern whose program has wildcards.
    fn add_glob(&mut self, glob: &str, pattern: u32) -> Result<(), GlobError> {
        match self.globs.get(glob) {
            Some(&known) => self.by_glob[known].1.push(pattern),
            None => {
                self.globs.insert(glob.to_owned(), self.by_glob.len());
                self.by_glob.push((Glob::new(glob, NAME)?, vec![pattern]));
            }
        }
        Ok(())
    }

    /// Adds an expression of `code`. Equal expressions are searched once.
    fn add_code(&mut self, text: &str, tree: PatternTree) -> PatternId {
        // The tree of a compiled pack need not be that of the text.
        let known = self.code_ids.get(text).copied();
        if let Some(known) = known.filter(|known| self.codes[known.index()] == tree) {
            return known;
        }
        let id = PatternId(self.codes.len() as u32);
        self.codes.push(tree);
        self.code_ids.insert(text.to_owned(), id);
        id
    }

    /// Returns the words that these patterns have requirements on.
    pub(crate) fn needs(&self, all: &[CommandProgress]) -> WordNeeds {
        let mut needs = WordNeeds::default();
        for progress in all {
            let pattern = self.pattern(progress.pattern);
            needs.arguments |= pattern.needs_arguments();
            needs.files |= pattern.reads.is_some();
            needs.code |= pattern.code.is_some();
        }
        needs
    }

    /// Replaces `all` by the progress of each pattern for a program with that name, in the order of the patterns.
    pub(crate) fn begin(
        &self,
        name: &[u8],
        all: &mut Vec<CommandProgress>,
        cache: &mut CommandCache,
    ) {
        all.clear();
        let mut buffer = [0; NAME_BYTES];
        let name: Cow<'_, [u8]> = match buffer.get_mut(..name.len()) {
            Some(buffer) => {
                buffer.copy_from_slice(name);
                buffer.make_ascii_lowercase();
                Cow::Borrowed(buffer)
            }
            None => Cow::Owned(name.to_ascii_lowercase()),
        };
        let by_name = self.by_name.get(&*name).map_or(&[][..], Vec::as_slice);
        all.extend(by_name.iter().copied().map(CommandProgress::new));
        // An empty word is no program.
        if name.is_empty() {
            return;
        }
        all.extend(self.for_all.iter().copied().map(CommandProgress::new));
        let text = String::from_utf8_lossy(&name);
        for (glob, patterns) in &self.by_glob {
            if glob.is_match_with(&text, &mut cache.globs) {
                all.extend(patterns.iter().copied().map(CommandProgress::new));
            }
        }
        all.sort_unstable_by_key(|progress| progress.pattern);
        all.dedup_by_key(|progress| progress.pattern);
    }
}

/// Returns the regular expressions on operands and working directories in a pattern of a command and in the patterns that
/// it relates to.
pub(crate) fn operand_texts(pattern: &Pattern) -> Vec<&str> {
    let Some(command) = pattern.command.as_deref() else {
        return Vec::new();
    };
    let own = [
        &command.operand,
        &command.operands_all,
        &command.last_operand,
        &command.directory,
    ];
    let related = [&command.pipe_to, &command.pipe_from, &command.runs];
    let own = own.into_iter().flatten().map(String::as_str);
    let related = related.into_iter().flatten();
    own.chain(related.flat_map(|related| operand_texts(related)))
        .collect()
}

/// Returns the regular expressions on code in a pattern of a command and in the patterns that it relates to.
pub(crate) fn code_texts(pattern: &Pattern) -> Vec<&str> {
    let Some(command) = pattern.command.as_deref() else {
        return Vec::new();
    };
    let related = [&command.pipe_to, &command.pipe_from, &command.runs];
    let own = command.code.iter().map(String::as_str);
    let related = related.into_iter().flatten();
    own.chain(related.flat_map(|related| code_texts(related)))
        .collect()
}

/// Returns the glob on the name of the program.
fn program(pattern: &Pattern) -> &str {
    pattern.text.split(' ').next().unwrap_or_default()
}

impl CommandPattern {
    fn needs_arguments(&self) -> bool {
        const OPERANDS: u16 = requirement::OPERAND
            | requirement::OPERANDS_ALL
            | requirement::LAST_OPERAND
            | requirement::MIN_OPERANDS;
        !(self.subcommands.is_empty() && self.flags.is_empty() && self.no_flags.is_empty())
            || self.required & OPERANDS != 0
            || self.max_operands != u32::MAX
    }

    fn compile(
        pattern: &Pattern,
        owner: Option<CommandOwner>,
        operands: &mut dyn Iterator<Item = PatternTree>,
        read_globs: &mut HashMap<Vec<String>, ReadGlobs>,
    ) -> Result<CommandPattern, GlobError> {
        let none = CommandRequirements::default();
        let wanted = pattern.command.as_deref().unwrap_or(&none);
        let mut regex = |text: &Option<String>| {
            let tree = text.as_ref().and_then(|_| operands.next());
            tree.map(|tree| LazyPike::new(tree, None))
        };
        let subcommands = pattern.text.split(' ').skip(1);
        let variable = |entry: &String| {
            let (name, value) = match entry.split_once('=') {
                Some((name, value)) => (name, Some(Glob::new(value, TEXT)?)),
                None => (entry.as_str(), None),
            };
            Ok::<_, GlobError>((Glob::new(name, TEXT)?, value))
        };
        let no_flags = wanted.no_flags.iter().map(|entry| spellings(entry));
        let no_flags = no_flags.collect::<Result<Vec<_>, _>>()?;
        Ok(CommandPattern {
            owner,
            subcommands: subcommands
                .map(|glob| Glob::new(glob, TEXT))
                .collect::<Result<_, _>>()?,
            flags: wanted
                .flags
                .iter()
                .map(|entry| spellings(entry))
                .collect::<Result<_, _>>()?,
            no_flags: no_flags.into_iter().flatten().collect(),
            // In the order of `operand_texts`.
            operand: regex(&wanted.operand),
            operands_all: regex(&wanted.operands_all),
            last_operand: regex(&wanted.last_operand),
            directory: regex(&wanted.directory),
            code: None,
            min_operands: wanted.min_operands.unwrap_or(0),
            max_operands: wanted.max_operands.unwrap_or(u32::MAX),
            env: wanted.env.iter().map(variable).collect::<Result<_, _>>()?,
            redirect_to: FileGlobs::new(&wanted.redirect_to)?,
            reads: ReadGlobs::new(&wanted.reads, read_globs)?,
            required: required_bits(wanted),
            pipe_to: None,
            pipe_from: None,
            runs: None,
        })
    }
}

/// Returns the bits of the requirements that a command must meet.
fn required_bits(wanted: &CommandRequirements) -> u16 {
    let waits_for_end = !wanted.no_flags.is_empty()
        || wanted.operands_all.is_some()
        || wanted.last_operand.is_some()
        || wanted.max_operands.is_some();
    let required = [
        (wanted.operand.is_some(), requirement::OPERAND),
        (wanted.operands_all.is_some(), requirement::OPERANDS_ALL),
        (!wanted.env.is_empty(), requirement::ENV),
        (!wanted.redirect_to.is_empty(), requirement::REDIRECT_TO),
        (!wanted.reads.is_empty(), requirement::READS),
        (wanted.stdin_is_code, requirement::STDIN_IS_CODE),
        (wanted.file_is_code, requirement::FILE_IS_CODE),
        (waits_for_end, requirement::END),
        (wanted.last_operand.is_some(), requirement::LAST_OPERAND),
        (
            wanted.min_operands.is_some_and(|least| least > 0),
            requirement::MIN_OPERANDS,
        ),
        (wanted.directory.is_some(), requirement::DIRECTORY),
        (wanted.code.is_some(), requirement::CODE),
    ];
    let required = required.into_iter().filter(|(is_required, _)| *is_required);
    required.fold(0, |bits, (_, bit)| bits | bit)
}

fn is_flag(
    spellings: &[FlagSpelling],
    name: &[u8],
    value: Option<&[u8]>,
    is_value_of_last: bool,
    cache: &mut CommandCache,
) -> bool {
    spellings.iter().any(|spelling| {
        *spelling.name == *name
            && match (&spelling.value, value) {
                (None, _) => !is_value_of_last,
                (Some(glob), Some(value)) => cache.is_match(glob, value),
                (Some(_), None) => false,
            }
    })
}

impl PathSpellings<'_> {
    fn is_match(self, vm: &LazyPike, cache: &mut CommandCache) -> bool {
        let vm = vm.get();
        let mut is_match = |path: &[u8]| vm.is_match(path, &mut cache.pike);
        is_match(self.path) || self.below_home.is_some_and(is_match)
    }
}

impl CommandCache {
    fn is_match(&mut self, glob: &Glob, text: &[u8]) -> bool {
        glob.is_match_with(&String::from_utf8_lossy(text), &mut self.globs)
    }
}

impl CommandProgress {
    fn new(pattern: u32) -> CommandProgress {
        CommandProgress {
            pattern,
            subcommands: 0,
            operands: 0,
            flags: 0,
            met: 0,
            state: ProgressState::Open,
        }
    }

    /// Returns true if all requirements on the command itself are met.
    pub(crate) fn is_met(&self) -> bool {
        matches!(self.state, ProgressState::Met | ProgressState::Reported)
    }

    fn set(&mut self, bit: u16, is_met: bool) {
        if is_met {
            self.met |= bit;
        }
    }

    fn refuse(&mut self) {
        if self.state == ProgressState::Open {
            self.state = ProgressState::Refused;
        }
    }

    /// Adds a subcommand or an operand, which `index` others precede in the command. `paths` are the normalized text, and
    /// its spelling below the home directory.
    pub(crate) fn add_operand(
        &mut self,
        pattern: &CommandPattern,
        index: u32,
        is_subcommand: bool,
        text: &[u8],
        paths: PathSpellings<'_>,
        cache: &mut CommandCache,
    ) {
        if let Some(glob) = pattern.subcommands.get(index as usize) {
            match cache.is_match(glob, text) {
                true => self.subcommands += 1,
                false => self.refuse(),
            }
            return;
        }
        if is_subcommand || self.state == ProgressState::Refused {
            return;
        }
        let mut found = |vm: &Option<LazyPike>| Some(paths.is_match(vm.as_ref()?, cache));
        self.operands = self.operands.saturating_add(1);
        if self.operands > pattern.max_operands {
            return self.refuse();
        }
        let is_enough = self.operands >= pattern.min_operands;
        self.set(requirement::MIN_OPERANDS, is_enough);
        self.met &= !requirement::LAST_OPERAND;
        let is_last = found(&pattern.last_operand) == Some(true);
        self.set(requirement::LAST_OPERAND, is_last);
        self.set(requirement::OPERAND, found(&pattern.operand) == Some(true));
        match found(&pattern.operands_all) {
            Some(false) => self.refuse(),
            all => self.set(requirement::OPERANDS_ALL, all.is_some()),
        }
    }

    /// Adds the working directory of the command.
    pub(crate) fn add_directory(
        &mut self,
        pattern: &CommandPattern,
        paths: PathSpellings<'_>,
        cache: &mut CommandCache,
    ) {
        let wanted = pattern.directory.as_ref();
        let is_wanted = wanted.is_some_and(|vm| paths.is_match(vm, cache));
        self.set(requirement::DIRECTORY, is_wanted);
    }

    /// Adds a match of an expression in the code of the command.
    pub(crate) fn add_code_match(&mut self, pattern: &CommandPattern, code: PatternId) {
        self.set(requirement::CODE, pattern.code == Some(code));
    }

    /// Adds a command that this one runs by its words, as `env` and `sudo` do. It counts as one operand for
    /// `max-operands` only.
    pub(crate) fn add_wrapped_command(&mut self, pattern: &CommandPattern) {
        if self.operands >= pattern.max_operands {
            self.refuse();
        }
    }

    /// Adds a flag with the value that is attached to it, or the value of the preceding flag.
    pub(crate) fn add_flag(
        &mut self,
        pattern: &CommandPattern,
        name: &[u8],
        value: Option<&[u8]>,
        is_value_of_last: bool,
        cache: &mut CommandCache,
    ) {
        for (index, spellings) in pattern.flags.iter().enumerate() {
            if is_flag(spellings, name, value, is_value_of_last, cache) {
                self.flags |= 1 << index;
            }
        }
        if is_flag(&pattern.no_flags, name, value, is_value_of_last, cache) {
            self.refuse();
        }
    }

    pub(crate) fn add_variable(
        &mut self,
        pattern: &CommandPattern,
        name: &[u8],
        value: &[u8],
        cache: &mut CommandCache,
    ) {
        let has_env = pattern.env.iter().any(|(wanted, content)| {
            cache.is_match(wanted, name)
                && content
                    .as_ref()
                    .is_none_or(|glob| cache.is_match(glob, value))
        });
        self.set(requirement::ENV, has_env);
    }

    /// Adds a file that the command writes by a redirection.
    pub(crate) fn add_written_file(
        &mut self,
        pattern: &CommandPattern,
        path: &str,
        cache: &mut CommandCache,
    ) {
        let wanted = pattern.redirect_to.as_ref();
        let is_wanted = wanted.is_some_and(|it| it.is_match(path, &mut cache.globs));
        self.set(requirement::REDIRECT_TO, is_wanted);
    }

    /// Adds files that the command reads. `matches` are the results for these files.
    pub(crate) fn add_read_files<'p>(
        &mut self,
        pattern: &CommandPattern,
        paths: impl IntoIterator<Item = Cow<'p, str>>,
        matches: &mut ReadMatches,
        cache: &mut CommandCache,
    ) {
        // PERF: a command may get the 16 files of each of 64 others. One that matches is enough, and the files of a command
        // are matched once with each list, however many commands get them: 12 µs a byte without both, 2 with them.
        if self.state != ProgressState::Open || self.met & requirement::READS != 0 {
            return;
        }
        let Some(wanted) = &pattern.reads else { return };
        let mut paths = paths.into_iter();
        let is_wanted = matches.get(wanted, |files| {
            paths.any(|path| files.is_match(&path, &mut cache.globs))
        });
        self.set(requirement::READS, is_wanted);
    }

    pub(crate) fn set_stdin_is_code(&mut self) {
        self.set(requirement::STDIN_IS_CODE, true);
    }

    pub(crate) fn set_file_is_code(&mut self) {
        self.set(requirement::FILE_IS_CODE, true);
    }

    pub(crate) fn end(&mut self) {
        self.set(requirement::END, true);
    }

    /// Returns true if all requirements on the command itself have just been met.
    pub(crate) fn becomes_met(&mut self, pattern: &CommandPattern) -> bool {
        let flags = (1u64 << pattern.flags.len()) - 1;
        let is_met = self.state == ProgressState::Open
            && usize::from(self.subcommands) == pattern.subcommands.len()
            && u64::from(self.flags) == flags
            && self.met & pattern.required == pattern.required;
        if is_met {
            self.state = ProgressState::Met;
        }
        is_met
    }
}
