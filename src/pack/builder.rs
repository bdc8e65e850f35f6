//! The builder of a pack from several sources.

use std::path::PathBuf;
use std::sync::Arc;

use super::check::HostOptions;
use super::compose::{self, Date};
use super::diagnostic::{Diagnostic, code};
use super::escape::quote;
use super::lint::LintTrial;
use super::load_context::LoadContext;
use super::source::Files;
use super::{Check, LoadError, Lock, Pack, builtin, did_you_mean, finish, read_compiled};
use crate::limits::Limits;
use crate::program::Places;
use crate::rule::{Action, Rule};

/// Collects the sources and the options of a [`Pack`]. Nothing is read before [`build`](Self::build), and the order of the
/// calls does not matter.
///
/// # Example: a built-in pack, a text and a rule made in code
/// ```
/// use ttsr::{Pack, Pattern, Rule};
/// let text = "
/// schema = 1
/// pack.name = 'team'
/// [rule.no-todo]
/// description = 'Finish it'
/// match.any = [{ word = 'TODO' }]
/// examples.match = ['// TODO']
/// ";
/// let word = Pattern::word("FIXME");
/// let pack = Pack::builder()
///     .builtin("lang/rust")
///     .toml("team.toml", text)
///     .rule(Rule::new("team/no-fixme", vec![word]))
///     .build()?;
/// assert!(pack.find("team/no-todo") > pack.find("team/no-fixme"));
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct PackBuilder {
    inputs: Vec<PackInput>,
    limits: Limits,
    places: Places,
    options: HostOptions,
}

#[derive(Clone, Debug)]
enum PackInput {
    Path(PathBuf),
    Text { name: String, text: String },
    Rule(Box<Rule>),
    Builtin(String),
    Compiled { name: String, bytes: Arc<[u8]> },
}

impl PackBuilder {
    /// Adds a file, or every `*.toml` below a folder.
    pub fn file(self, path: impl Into<PathBuf>) -> PackBuilder {
        self.with(PackInput::Path(path.into()))
    }

    /// Adds the text of a rule file; `name` is its name in messages.
    pub fn toml(self, name: impl Into<String>, text: impl Into<String>) -> PackBuilder {
        self.with(PackInput::Text {
            name: name.into(),
            text: text.into(),
        })
    }

    /// Adds a rule made in code, with the checks of a rule in a file.
    pub fn rule(self, rule: Rule) -> PackBuilder {
        self.with(PackInput::Rule(Box::new(rule)))
    }

    /// Adds the built-in pack `name`, one of [`Pack::builtin_names`].
    pub fn builtin(self, name: impl Into<String>) -> PackBuilder {
        self.with(PackInput::Builtin(name.into()))
    }

    /// Adds a compiled pack: see [`Pack::from_bytes`]. It must be the only source, because overrides, lists and `extends`
    /// are resolved when a pack is compiled. `name` is its name in messages.
    ///
    /// # Example: a compiled pack in a workspace
    /// ```
    /// use ttsr::Pack;
    /// let bytes = Pack::builtin("std/shell-safety")?.to_bytes();
    /// let pack = Pack::builder().compiled("shell.pack", &bytes).root("/repo").build()?;
    /// assert_eq!(pack.root(), Some("/repo"));
    /// let error = Pack::builder().compiled("shell.pack", &bytes).builtin("lang/go").build().unwrap_err();
    /// assert_eq!(error.diagnostics()[0].code(), "compiled-combined");
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn compiled(self, name: impl Into<String>, bytes: &[u8]) -> PackBuilder {
        self.with(PackInput::Compiled {
            name: name.into(),
            bytes: bytes.into(),
        })
    }

    /// Sets the bounds of the load, of the pack and of the streams read with it.
    ///
    /// # Example: patterns of strangers
    /// ```
    /// use ttsr::{Limits, Pack, Pattern, Rule};
    /// let limits = Limits { pattern_bytes: 16, ..Limits::default() };
    /// let long = Rule::new("demo/long", vec![Pattern::literal("a".repeat(17))]);
    /// let error = Pack::builder().rule(long).limits(limits).build().unwrap_err();
    /// assert!(error.to_string().contains("limit is 16"));
    /// ```
    pub fn limits(self, limits: Limits) -> PackBuilder {
        PackBuilder { limits, ..self }
    }

    /// Sets the workspace. Paths of tool calls below this folder match `paths` relative to it, and other paths as absolute;
    /// relative paths are relative to it. The folder must be absolute; it is compared as text and never read. Default: no
    /// workspace, so that absolute paths match as absolute.
    ///
    /// # Example: the same file by two names
    /// ```
    /// use ttsr::{Channel, Pack, PartId, Pattern, Rule};
    /// let mut rule = Rule::new("demo/infra", vec![Pattern::literal("destroy")]);
    /// rule.paths = vec!["infra/**".into()];
    /// let pack = Pack::builder().rule(rule).root("/repo").build()?;
    /// for path in ["infra/main.tf", "/repo/infra/main.tf"] {
    ///     let mut stream = pack.stream();
    ///     stream.open(PartId(0), Channel::ToolInput);
    ///     let input = format!(r#"{{"path": "{path}", "content": "destroy"}}"#);
    ///     assert_eq!(stream.push(PartId(0), input.as_bytes()).len(), 1);
    /// }
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn root(self, root: impl Into<PathBuf>) -> PackBuilder {
        let root = root.into().to_string_lossy().into_owned();
        let places = Places {
            root: Some(root),
            ..self.places
        };
        PackBuilder { places, ..self }
    }

    /// Sets the home directory of the user who runs the commands of tool calls. A path below it in a command is compared
    /// as it is written and with `~` in place of the folder. The folder must be absolute; it is compared as text and
    /// never read. Default: only `~`, `$HOME` and `${HOME}` name the home directory.
    ///
    /// # Example: the home directory written in full
    /// ```
    /// use ttsr::{Channel, Pack, PartId};
    /// let pack = Pack::builder().builtin("std/shell-safety").home("/srv/people/ada").build()?;
    /// let mut stream = pack.stream();
    /// stream.open(PartId(0), Channel::ToolInput);
    /// let _ = stream.set_tool(PartId(0), "bash", "call");
    /// let hits = stream.push(PartId(0), br#"{"command":"rm -rf /srv/people/ada"}"#);
    /// let rules: Vec<_> = hits.iter().map(|hit| pack.rule(hit.rule).id.as_str()).collect();
    /// assert!(rules.contains(&"std/shell-safety/rm-system-path"), "{rules:?}");
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn home(self, home: impl Into<PathBuf>) -> PackBuilder {
        let home = home.into().to_string_lossy().into_owned();
        let places = Places {
            home: Some(home),
            ..self.places
        };
        PackBuilder { places, ..self }
    }

    /// Sets the actions that rules may take. Actions no stronger than [`Action::Warn`] need no grant. A rule with another
    /// action fails the load, because packs may be untrusted. Default: every action.
    ///
    /// # Example: a pack that may not cut
    /// ```
    /// use ttsr::pack::LoadErrorKind;
    /// use ttsr::{Action, Pack};
    /// let builder = Pack::builder().builtin("std/shell-safety").grants(&[Action::Inject]);
    /// let error = builder.build().unwrap_err();
    /// assert_eq!(error.diagnostics()[0].code(), "not-granted");
    /// ```
    pub fn grants(mut self, actions: &[Action]) -> PackBuilder {
        self.options.grants = Some(actions.to_vec());
        self
    }

    /// Sets the day with which an `[[allow]]` with `until` is compared. An entry that ended before it is not applied, and is
    /// among the [`warnings`](Pack::warnings). Without this call no `[[allow]]` with `until` is applied, and each is among the
    /// warnings: the library reads no clock (see [`Date::from_unix_seconds`]). A pack keeps the day with which it was built:
    /// a long-running process builds it again.
    ///
    /// # Example: an exception for some weeks
    /// ```
    /// use ttsr::pack::Date;
    /// use ttsr::{Channel, Pack, PartId};
    /// let text = r#"
    /// schema = 1
    /// [pack]
    /// name = "demo"
    /// [rule.no-todo]
    /// description = "Do it now"
    /// match.any = [{ literal = "TODO" }]
    /// examples.match = ["TODO: more"]
    /// [[allow]]
    /// rules = ["demo/no-todo"]
    /// tools = ["write"]
    /// reason = "until the release"
    /// until = 2026-03-01
    /// "#;
    /// let hits = |day: &str| {
    ///     let today = Date::parse(day).expect("a day");
    ///     let pack = Pack::builder().toml("demo.toml", text).today(today).build()?;
    ///     let mut stream = pack.stream();
    ///     stream.open(PartId(0), Channel::ToolInput);
    ///     let _ = stream.set_tool(PartId(0), "write", "call_1");
    ///     Ok::<_, ttsr::LoadError>(stream.push(PartId(0), br#"{"content": "TODO: more"}"#).len())
    /// };
    /// assert_eq!(hits("2026-03-01")?, 0);
    /// assert_eq!(hits("2026-03-02")?, 1);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn today(mut self, today: Date) -> PackBuilder {
        self.options.today = Some(today);
        self
    }

    /// Runs the lints, with `trial` for those that must run a rule.
    pub(crate) fn lint_with(mut self, trial: LintTrial) -> PackBuilder {
        self.options.lints = Some(trial);
        self
    }

    /// Sets the packs that the load must result in: another name, version or content is an error.
    ///
    /// # Example: a pack that was changed
    /// ```
    /// use ttsr::pack::Lock;
    /// use ttsr::Pack;
    /// let text = "schema = 1\n[pack]\nname = \"demo\"\n";
    /// let locked = Pack::builder().toml("demo.toml", text).build()?.lock().to_string();
    /// let lock = Lock::parse(&locked).unwrap();
    /// assert!(Pack::builder().toml("demo.toml", text).lock(lock.clone()).build().is_ok());
    /// let changed = format!("{text}version = \"2\"\n");
    /// assert!(Pack::builder().toml("demo.toml", changed).lock(lock).build().is_err());
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn lock(mut self, lock: Lock) -> PackBuilder {
        self.options.lock = Some(lock);
        self
    }

    /// Reads and checks everything.
    ///
    /// # Errors
    /// Every problem of every source: see [`LoadError::diagnostics`].
    pub fn build(self) -> Result<Pack, LoadError> {
        self.build_with_paths().0
    }

    /// Like [`build`](Self::build). Also returns the paths on whose content the result depends, for hosts that load a pack
    /// again when one of them changes: files, folders of which every `*.toml` is read, and the paths at which packs of
    /// `extends` were looked for, whether or not they exist. Where a path is a link, its target is there too.
    ///
    /// # Example: a pack in the same folder
    /// ```
    /// let folder = std::env::temp_dir().join(format!("ttsr-paths-{}", std::process::id()));
    /// std::fs::create_dir_all(&folder)?;
    /// let file = folder.join("mine.toml");
    /// std::fs::write(&file, "schema = 1\n[pack]\nname = \"mine\"\nextends = [\"base\"]\n")?;
    /// let (pack, paths) = ttsr::Pack::builder().file(&file).build_with_paths();
    /// assert!(pack.is_err(), "there is no pack `base`");
    /// assert!(paths.contains(&file) && paths.contains(&folder.join("base.toml")));
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn build_with_paths(self) -> (Result<Pack, LoadError>, Vec<PathBuf>) {
        let PackBuilder {
            inputs,
            limits,
            places,
            options,
        } = self;
        let context = LoadContext::new(&limits);
        let mut check = Check::new(&context);
        let mut files = Files::new(&limits);
        let is_single = inputs.len() == 1;
        for input in inputs {
            match input {
                PackInput::Compiled { name, bytes } if is_single => {
                    let pack = read_compiled(&name, bytes, &options, &context, places);
                    return (pack, Vec::new());
                }
                PackInput::Compiled { name, .. } => check.add_problem(combined(&name)),
                PackInput::Path(path) => files.read(&path, &mut check),
                PackInput::Text { name, text } => check.add_text(&name, &text, None),
                PackInput::Rule(rule) => check.add_rule(*rule),
                PackInput::Builtin(name) => builtin_pack(&name, &mut check),
            }
        }
        compose::gather(&mut check, &mut files);
        let pack = finish(check.finish(&options), &context, places);
        (pack, files.into_paths())
    }

    fn with(mut self, input: PackInput) -> PackBuilder {
        self.inputs.push(input);
        self
    }
}

/// Returns the problem of a compiled pack beside other sources.
fn combined(name: &str) -> Diagnostic {
    let message = "a compiled pack is complete, so it cannot be loaded together with other packs";
    let problem = Diagnostic::from_file(&code::COMPILED_COMBINED, name, message.to_owned());
    problem.with_help("compile all of them into one: `ttsr compile --pack A --pack B -o FILE`")
}

fn builtin_pack(name: &str, check: &mut Check<'_>) {
    if let Some(pack) = builtin::find(name) {
        return check.add_builtin(pack);
    }
    let names: Vec<&str> = Pack::builtin_names().collect();
    let message = format!("there is no built-in pack {}", quote(name));
    let problem = Diagnostic::from_file(&code::UNKNOWN_PACK, name, message);
    check.add_problem(problem.with_help(did_you_mean::help(name, &names)));
}
