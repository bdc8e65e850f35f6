//! Packs: TOML in, [`Pack`] out.
//!
//! `source` finds and reads files, `check` turns their text into rules and problems, `diagnostic` shows
//! the problems, `message` renders what a rule says. How rules are matched is not known here.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod builder;
mod builtin;
mod captures;
mod check;
mod compile;
mod compose;
mod diagnostic;
mod error;
mod escape;
mod header;
mod lint;
mod lock;
mod lower;
pub(crate) mod message;
mod nearest;
mod retained;
mod schema;
mod source;
mod tools;

pub use builder::PackBuilder;
pub(crate) use compose::Allow;
pub use compose::Date;
pub use diagnostic::{Diagnostic, Level};
pub use error::{LoadError, LoadErrorKind};
pub use header::PackHeader;
pub use lock::Lock;
pub use ttsr_automata::AutomatonSize;

use crate::limits::Limits;
use crate::rule::{Channel, Rule};
use crate::session::Session;
use crate::stream::Stream;
use crate::verdict::RuleId;
pub(crate) use captures::{Captured, Captures};
use check::{Check, Loaded};
#[cfg(feature = "lookaround")]
pub(crate) use compile::Confirms;
pub(crate) use compile::{
    Allowed, ChannelRules, Compound, Extent, Role, Scope, Source, SpanPattern, SpanRules,
    ViewRules, Watched, What,
};
use compile::{Big, Compiled, MatchMode, TooBig};
use diagnostic::code;
pub(crate) use message::{MessageValues, render as render_message};
use ttsr_automata::{CLASSES, Matcher};

/// A checked, immutable set of rules. Cloning is cheap: clones share everything.
///
/// Rules are ordered by their full ids, so the order in which files were loaded never matters.
///
/// # Example: one rule from a text
/// ```
/// let pack = ttsr::Pack::from_toml(r#"
/// schema = 1
/// [pack]
/// name = "demo"
/// [rule.no-leak]
/// description = "Box::leak keeps memory for ever"
/// severity = "error"
/// match.any = [{ regex = '\bBox\s*::\s*leak\b' }]
/// examples.match = ["Box::leak(x)"]
/// "#)?;
/// assert_eq!(pack.rules()[0].id, "demo/no-leak");
/// assert_eq!(pack.rules()[0].action, ttsr::Action::Retry);
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone)]
pub struct Pack {
    inner: Arc<Inner>,
}

struct Inner {
    rules: Vec<Rule>,
    allows: Vec<Allow>,
    headers: Vec<PackHeader>,
    lock: Lock,
    warnings: Vec<Diagnostic>,
    limits: Limits,
    root: Option<String>,
    compiled: Compiled,
    /// For each rule what its message takes captures from, if it does.
    captures: Box<[Option<Captures>]>,
}

impl Pack {
    /// The rules of a file, or of every `*.toml` below a folder.
    ///
    /// Links are followed only inside the folder. Only regular files are opened.
    ///
    /// # Errors
    /// Every problem of every file: see [`LoadError::diagnostics`].
    ///
    /// # Example: one file
    /// ```
    /// let file = std::env::temp_dir().join(format!("ttsr-load-{}.toml", std::process::id()));
    /// std::fs::write(&file, "schema = 1\n[pack]\nname = \"mine\"\n")?;
    /// let pack = ttsr::Pack::load(&file)?;
    /// assert_eq!(pack.headers()[0].name, "mine");
    /// # std::fs::remove_file(&file)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn load(path: impl AsRef<Path>) -> Result<Pack, LoadError> {
        Pack::builder().file(path.as_ref()).build()
    }

    /// The rules of one text.
    ///
    /// # Errors
    /// Every problem of the text: see [`LoadError::diagnostics`].
    pub fn from_toml(text: &str) -> Result<Pack, LoadError> {
        Pack::builder().toml("<toml>", text).build()
    }

    /// A pack that comes with the crate: one of [`builtins`](Self::builtins).
    ///
    /// # Errors
    /// [`LoadErrorKind::UnknownPack`] if there is none of that name.
    ///
    /// # Example: no pack of that name
    /// ```
    /// use ttsr::pack::LoadErrorKind;
    /// use ttsr::Pack;
    /// assert!(Pack::builtins().any(|name| name == "std/secrets"));
    /// assert!(!Pack::builtin("std/secrets")?.rules().is_empty());
    /// let error = Pack::builtin("std/secret").unwrap_err();
    /// assert_eq!(error.kind(), LoadErrorKind::UnknownPack);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn builtin(name: &str) -> Result<Pack, LoadError> {
        Pack::builder().builtin(name).build()
    }

    /// The names of all packs that come with the crate, sorted.
    pub fn builtins() -> impl Iterator<Item = &'static str> {
        builtin::PACKS.iter().map(|(name, _)| *name)
    }

    /// A pack put together from several sources, or with limits of its own.
    pub fn builder() -> PackBuilder {
        PackBuilder::default()
    }

    /// Every rule, ordered by full id.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.inner.rules
    }

    /// The rule with that id.
    ///
    /// # Panics
    /// If the id is of another pack and out of range here.
    #[must_use]
    pub fn rule(&self, id: RuleId) -> &Rule {
        &self.inner.rules[id.index()]
    }

    /// The rule with that full id, `pack/rule`.
    ///
    /// # Example: a rule by its id
    /// ```
    /// let pack = ttsr::Pack::builtin("lang/rust")?;
    /// let leak = pack.find("lang/rust/box-leak").unwrap();
    /// assert_eq!(pack.rule(leak).id, "lang/rust/box-leak");
    /// assert_eq!(pack.find("lang/rust/no-such-rule"), None);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    #[must_use]
    pub fn find(&self, id: &str) -> Option<RuleId> {
        let found = self
            .inner
            .rules
            .binary_search_by(|rule| rule.id.as_str().cmp(id));
        found.ok().map(|place| {
            RuleId(u32::try_from(place).expect("packs are limited far below 2^32 rules"))
        })
    }

    /// The full id that `id` was most likely meant to be: one that is a typing error or two away, or one that
    /// ends with it.
    ///
    /// # Example: two letters that changed places
    /// ```
    /// let pack = ttsr::Pack::builtin("lang/rust")?;
    /// assert_eq!(pack.nearest("lang/rust/box-laek"), Some("lang/rust/box-leak"));
    /// assert_eq!(pack.nearest("box-leek"), Some("lang/rust/box-leak"));
    /// assert_eq!(pack.nearest("something-else-altogether"), None);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    #[must_use]
    pub fn nearest(&self, id: &str) -> Option<&str> {
        let ids: Vec<&str> = self.rules().iter().map(|rule| rule.id.as_str()).collect();
        if id.contains('/') {
            return nearest::nearest(id, &ids);
        }
        let name = |full: &&str| full.rsplit_once('/').map_or(0, |(pack, _)| pack.len() + 1);
        let names: Vec<&str> = ids.iter().map(|full| &full[name(full)..]).collect();
        let near = nearest::nearest(id, &names)?;
        ids.into_iter().find(|full| &full[name(full)..] == near)
    }

    /// What was odd but no reason not to load.
    #[must_use]
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.inner.warnings
    }

    /// The bounds of this pack and of the streams read with it.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// What the packs it was made of say of themselves, those they extend among them, by name. Rules made in
    /// code have none.
    #[must_use]
    pub fn headers(&self) -> &[PackHeader] {
        &self.inner.headers
    }

    /// The packs it was made of, with versions and hashes of their content.
    #[must_use]
    pub fn lock(&self) -> &Lock {
        &self.inner.lock
    }

    /// The folder that absolute paths of tool calls are taken relative to.
    #[must_use]
    pub fn root(&self) -> Option<&str> {
        self.inner.root.as_deref()
    }

    /// A session: the state of one conversation.
    #[must_use]
    pub fn session(&self) -> Session {
        Session::new(self.clone())
    }

    /// A stream without a session: hits, but no policy.
    #[must_use]
    pub fn stream(&self) -> Stream {
        Stream::new(self.clone(), 1)
    }

    /// Returns whether any rule can hit on that channel, and, on `tool-input` and `tool-output`, for that
    /// tool if it is known. Where none can, the host need not push: those bytes are not unscanned.
    ///
    /// # Example: tools that no rule reads
    /// ```
    /// use ttsr::{Channel, Pack, Pattern, Rule};
    /// let mut rule = Rule::new("demo/no-rm", vec![Pattern::literal("rm -rf")]);
    /// rule.on = vec![Channel::ToolInput];
    /// rule.tools = vec!["bash".into()];
    /// let pack = Pack::builder().rule(rule).build()?;
    /// assert!(pack.wants(Channel::ToolInput, None), "it may be bash");
    /// assert!(pack.wants(Channel::ToolInput, Some("bash")));
    /// assert!(!pack.wants(Channel::ToolInput, Some("read")));
    /// assert!(!pack.wants(Channel::Text, None));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    #[must_use]
    pub fn wants(&self, channel: Channel, tool: Option<&str>) -> bool {
        let Some(rules) = self.channel(channel) else {
            return false;
        };
        let has_tool = matches!(channel, Channel::ToolInput | Channel::ToolOutput);
        let Some(tool) = tool.filter(|_| has_tool) else {
            return true;
        };
        rules.rules().any(|rule| {
            let tools = self.scope(rule).tools.as_ref();
            tools.is_none_or(|tools| tools.applies(Some(tool)) == Some(true))
        })
    }

    /// The automata of a channel as they are now, for people who measure: none where no rule reads it,
    /// a second one where patterns match single bytes of characters.
    ///
    /// # Example: one automaton, on the channels that are read
    /// ```
    /// use ttsr::{Channel, Pack, Pattern, Rule};
    /// let mut rule = Rule::new("demo/no-todo", vec![Pattern::word("TODO")]);
    /// rule.on = vec![Channel::Text];
    /// let pack = Pack::builder().rule(rule).build()?;
    /// assert_eq!(pack.automata(Channel::Text).count(), 1);
    /// assert_eq!(pack.automata(Channel::Reasoning).count(), 0);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn automata(&self, channel: Channel) -> impl Iterator<Item = AutomatonSize> {
        self.channel(channel)
            .into_iter()
            .flat_map(ChannelRules::matchers)
            .flat_map(Matcher::sizes)
    }

    /// One rule of this pack, compiled so that a stream finds every match of it on that channel; see [`crate::scan`].
    /// `None` if one of its patterns is too large to be searched for whole matches.
    pub(crate) fn every_match_of(&self, rule: RuleId, channel: Channel) -> Option<Pack> {
        let mut rules = vec![self.rule(rule).clone()];
        rules[0].on = vec![channel];
        let allows = self.allows().iter();
        let allows = allows.filter(|allow| allow.rules.contains(&rule));
        let allows: Vec<Allow> = allows
            .map(|allow| Allow {
                rules: vec![RuleId(0)],
                ..allow.clone()
            })
            .collect();
        let limits = Limits {
            // The table of one rule is small, and there may be one for each rule.
            table_bytes: self.limits().table_bytes.min(2 << 20),
            stretch_bytes: self.limits().stretch_bytes.max(crate::scan::STRETCH_BYTES),
            ..self.limits().clone()
        };
        let compiled = compile::compile(&rules, &allows, &limits, MatchMode::Every).ok()?;
        Some(Pack {
            inner: Arc::new(Inner {
                rules,
                allows,
                headers: Vec::new(),
                lock: Lock::default(),
                warnings: Vec::new(),
                limits,
                root: self.inner.root.clone(),
                captures: Box::default(),
                compiled,
            }),
        })
    }

    /// Places where hits of some rules do not count.
    pub(crate) fn allows(&self) -> &[Allow] {
        &self.inner.allows
    }

    #[inline]
    pub(crate) fn channel(&self, channel: Channel) -> Option<&ChannelRules> {
        self.inner.compiled.channels[channel as usize].as_ref()
    }

    /// Where hits of a rule do not count.
    pub(crate) fn allowed(&self, rule: RuleId) -> &[Arc<Allowed>] {
        &self.inner.compiled.allowed[rule.index()]
    }

    /// The condition of a rule, where it is more than that one of its patterns matches.
    pub(crate) fn compound(&self, rule: RuleId) -> Option<&Compound> {
        self.inner.compiled.compounds[rule.index()].as_deref()
    }

    pub(crate) fn scope(&self, rule: RuleId) -> &Scope {
        &self.inner.compiled.scopes[rule.index()]
    }

    /// What the message of a rule takes captures from, if it does.
    pub(crate) fn captures(&self, rule: RuleId) -> Option<&Captures> {
        self.inner.captures.get(rule.index())?.as_ref()
    }

    /// By rule.
    pub(crate) fn scopes(&self) -> &[Scope] {
        &self.inner.compiled.scopes
    }
}

impl fmt::Debug for Pack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pack")
            .field("rules", &self.inner.rules.len())
            .field("allows", &self.allows().len())
            .field("warnings", &self.inner.warnings.len())
            .field("root", &self.inner.root)
            .finish_non_exhaustive()
    }
}

/// Every problem of the files at `paths` and of the files below the folders among them, sorted by file,
/// line and column. Rules of all of them must have different full ids.
///
/// Past 1,000 problems the last one says how many more there are.
///
/// # Example: a text that is no rule file
/// ```
/// use ttsr::{Level, Limits};
/// let file = std::env::temp_dir().join(format!("ttsr-check-{}.toml", std::process::id()));
/// std::fs::write(&file, "schema = 1\n[pack]\nname = \"mine\"\n[rule.empty]\n")?;
/// let problems = ttsr::check(&[&file], &Limits::default());
/// assert!(problems.iter().any(|problem| problem.level() == Level::Error && problem.line() == 4));
/// # std::fs::remove_file(&file)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub fn check(paths: &[impl AsRef<Path>], limits: &Limits) -> Vec<Diagnostic> {
    let builder = Pack::builder().limits(limits.clone()).lints();
    match paths
        .iter()
        .fold(builder, |builder, path| builder.file(path.as_ref()))
        .build()
    {
        Ok(pack) => pack.warnings().to_vec(),
        Err(error) => error.diagnostics().to_vec(),
    }
}

/// The rule language as a JSON Schema (draft-07), which editors complete and check rule files with.
///
/// It comes from the table of keys that the loader itself reads. What it cannot say (that a pattern has
/// exactly one of `literal`, `word`, `regex`, which keys exclude each other) only [`check`](fn@check) says.
///
/// # Example: every key has a description
/// ```
/// let schema = ttsr::pack::schema();
/// assert!(schema.contains("\"cooldown-turns\": {"));
/// ```
#[must_use]
pub fn schema() -> String {
    schema::json::schema()
}

/// The last step of every load: from checked rules to a pack.
fn finish(loaded: Loaded, limits: Limits, root: Option<PathBuf>) -> Result<Pack, LoadError> {
    let Loaded {
        rules,
        allows,
        headers,
        lock,
        report,
    } = loaded;
    if report.has_errors() {
        return Err(LoadError::new(report.into_diagnostics()));
    }
    let root = root.map(|root| root.to_string_lossy().into_owned());
    let compiled = compile::compile(&rules, &allows, &limits, MatchMode::First)
        .map_err(|error| too_big(&error, &rules, &limits))?;
    let warnings = report.into_diagnostics();
    let captures = rules.iter().map(Captures::of).collect();
    Ok(Pack {
        inner: Arc::new(Inner {
            rules,
            allows,
            headers,
            lock,
            warnings,
            limits,
            root,
            compiled,
            captures,
        }),
    })
}

fn too_big(error: &TooBig, rules: &[Rule], limits: &Limits) -> LoadError {
    let id = &rules[error.rule].id;
    let message = match &error.what {
        Big::States(states) => format!(
            "rule `{id}`: the rules up to this one need about {states} automaton states, limit is {}",
            limits.pack_states
        ),
        Big::Classes => format!(
            "the patterns of all rules together tell more than {CLASSES} kinds of characters apart"
        ),
        Big::Scope(error) => format!("rule `{id}`: its globs together are too big: {error}"),
        Big::Pattern(refused) => {
            format!("rule `{id}`: one of its patterns is refused: {refused:?}")
        }
    };
    LoadError::new(vec![Diagnostic::of_file(
        &code::PACK_TOO_BIG,
        "<pack>",
        message,
    )])
}
