//! Tools for rule authors that run rules: [`check`], the lints, and the memory bound of a rule.
//!
//! This layer is above both the loader and the stream. The loader knows no stream, so it receives the functions that
//! run a rule as a [`LintTrial`].

mod memory_bound;
mod trial;

use std::path::Path;

use crate::limits::Limits;
use crate::pack::{Diagnostic, Pack, PackBuilder};

impl PackBuilder {
    /// Also runs the lints, which report rules that are valid but odd, such as a rule that another one shadows. Their
    /// findings are among the [`warnings`](Pack::warnings). This about doubles the time of a load.
    ///
    /// # Example: a rule without a near miss
    /// ```
    /// use ttsr::Pack;
    /// let text = r#"
    /// schema = 1
    /// [pack]
    /// name = "demo"
    /// [rule.no-todo]
    /// description = "Do it now"
    /// match.any = [{ literal = "TODO" }]
    /// examples.match = ["TODO: more"]
    /// "#;
    /// assert!(Pack::builder().toml("demo.toml", text).build()?.warnings().is_empty());
    /// let pack = Pack::builder().toml("demo.toml", text).lints().build()?;
    /// assert!(pack.warnings().iter().any(|odd| odd.code() == "no-negative-example"));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn lints(self) -> PackBuilder {
        self.lint_with(trial::TRIAL)
    }
}

/// Returns every problem of the files at `paths` and of the files below the folders among them, sorted by file,
/// line and column. All of them are loaded together, so the full ids of their rules must differ.
///
/// At most 1,000 problems are returned; the last one then gives the number of the others. The current date is not known
/// here, so each `[[allow]]` with `until` has the warning `undated-allow`; [`PackBuilder::today`] with
/// [`lints`](PackBuilder::lints) compares it.
///
/// # Example: an incomplete rule
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
