//! The agent, the model and the provider of a reply, to which rules may be limited.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::pack::Pack;
use crate::program::{Program, RuleScope};
use ttsr_views::path::ToolScope;

/// The agent, the model and the provider of the next replies, each if the host knows it. Names are compared without
/// regard to ASCII case.
///
/// A rule with `agents`, `models` or `providers` decides only where they match. For a name that is not set, such a rule
/// decides only if it is critical or if its globs only exclude names.
///
/// # Example: a rule for one model
/// ```
/// use ttsr::{Origin, Pack, Pattern, Rule};
/// let mut rule = Rule::new("demo/no-dash", vec![Pattern::literal("—")]);
/// rule.models = vec!["gpt-*".into()];
/// let pack = Pack::builder().rule(rule).build()?;
/// let mut session = pack.session();
/// let rule = pack.find("demo/no-dash").unwrap();
/// assert!(!session.applies(rule), "nobody said which model it is");
/// session.set_origin(Origin { model: Some("GPT-9".into()), ..Origin::default() });
/// assert!(session.applies(rule));
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The name of the agent.
    pub agent: Option<String>,
    /// The name of the model.
    pub model: Option<String>,
    /// The name of the provider.
    pub provider: Option<String>,
}

impl Origin {
    /// Returns for each rule true if it is out of scope; `None` if no rule is.
    pub(super) fn excluded(&self, pack: &Pack) -> Option<Arc<[bool]>> {
        let Program {
            scopes,
            limited_to_origins,
            ..
        } = pack.program();
        let limited = limited_to_origins.iter();
        let mut excluded = limited
            .filter(|&&rule| !self.is_in(&scopes[rule]))
            .peekable();
        excluded.peek()?;
        let mut flags: Arc<[bool]> = std::iter::repeat_n(false, scopes.len()).collect();
        let all = Arc::make_mut(&mut flags);
        excluded.for_each(|&rule| all[rule] = true);
        Some(flags)
    }

    fn is_in(&self, scope: &RuleScope) -> bool {
        names(scope, scope.agents.as_deref(), self.agent.as_deref())
            && names(scope, scope.models.as_deref(), self.model.as_deref())
            && names(scope, scope.providers.as_deref(), self.provider.as_deref())
    }
}

/// Returns true if the globs include that name. A name that is not known is in scope for critical rules, and
/// for rules that exclude names only.
fn names(scope: &RuleScope, globs: Option<&ToolScope>, name: Option<&str>) -> bool {
    globs.is_none_or(|globs| globs.applies(name).unwrap_or(scope.is_critical))
}
