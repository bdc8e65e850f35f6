//! A pack from several sources.

use std::path::PathBuf;

use super::diagnostic::{Diagnostic, code};
use super::escape::quote;
use super::source::Files;
use super::{Check, LoadError, Pack, builtin, finish, nearest};
use crate::limits::Limits;
use crate::rule::Rule;

/// Collects what a [`Pack`] is made of. Nothing is read before [`build`](Self::build), and the order of
/// the calls does not matter.
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
    inputs: Vec<Input>,
    limits: Limits,
    root: Option<PathBuf>,
}

#[derive(Clone, Debug)]
enum Input {
    Path(PathBuf),
    Text { name: String, text: String },
    Rule(Box<Rule>),
    Builtin(String),
}

impl PackBuilder {
    /// Adds a file, or every `*.toml` below a folder.
    pub fn file(self, path: impl Into<PathBuf>) -> PackBuilder {
        self.with(Input::Path(path.into()))
    }

    /// Adds the text of a rule file; `name` is what problems call it.
    pub fn toml(self, name: impl Into<String>, text: impl Into<String>) -> PackBuilder {
        self.with(Input::Text {
            name: name.into(),
            text: text.into(),
        })
    }

    /// Adds a rule made in code. It is checked like one from a file.
    pub fn rule(self, rule: Rule) -> PackBuilder {
        self.with(Input::Rule(Box::new(rule)))
    }

    /// Adds one of [`Pack::builtins`].
    pub fn builtin(self, name: impl Into<String>) -> PackBuilder {
        self.with(Input::Builtin(name.into()))
    }

    /// The bounds of the load, of the pack and of the streams read with it.
    pub fn limits(self, limits: Limits) -> PackBuilder {
        PackBuilder { limits, ..self }
    }

    /// The folder that absolute paths of tool calls are taken relative to.
    pub fn root(self, root: impl Into<PathBuf>) -> PackBuilder {
        PackBuilder {
            root: Some(root.into()),
            ..self
        }
    }

    /// Reads and checks everything.
    ///
    /// # Errors
    /// Every problem of every source: see [`LoadError::diagnostics`].
    pub fn build(self) -> Result<Pack, LoadError> {
        let PackBuilder {
            inputs,
            limits,
            root,
        } = self;
        let mut check = Check::new(&limits);
        let mut files = Files::new(&limits);
        for input in inputs {
            match input {
                Input::Path(path) => files.read(&path, &mut check),
                Input::Text { name, text } => check.text(&name, &text),
                Input::Rule(rule) => check.rule(*rule),
                Input::Builtin(name) => builtin_pack(&name, &mut check),
            }
        }
        let (rules, report) = check.finish();
        finish(rules, report, limits, root)
    }

    fn with(mut self, input: Input) -> PackBuilder {
        self.inputs.push(input);
        self
    }
}

fn builtin_pack(name: &str, check: &mut Check<'_>) {
    if let Some(text) = builtin::text(name) {
        return check.text(&format!("<{name}>"), text);
    }
    let names: Vec<&str> = Pack::builtins().collect();
    let message = format!("there is no built-in pack {}", quote(name));
    let problem = Diagnostic::of_file(&code::UNKNOWN_PACK, name, message);
    check.problem(problem.with_help(nearest::help(name, &names)));
}
