//! `ttsr explain`: shows a rule as it takes effect, and why it is live or silent at a place.

use std::io::{self, Write};

use clap::Args;
use regex_syntax::hir::literal::Extractor;
use serde::Serialize;
use serde_json::{Map, Value};
use ttsr::rule::{Condition, PatternKind, ToolOutcome};
use ttsr::{Action, Channel, Conversation, Origin, Pack, PartId, Pattern, Rule};
use ttsr_views::chunk::Chunk;
use ttsr_views::command::{CommandLimits, CommandReader, CommandTrace};

use crate::args::{FormatArg, WorkspaceArgs};
use crate::output::{Escaped, OutputRecord, RecordWriter, STRONG, print_message};
use crate::scan::{check_outcome, outcomes};
use crate::test::part::ExamplePart;
use crate::test::{is_zero, undecided};
use crate::{CommandError, ExitStatus, effective, load};

mod why;

/// Explain a rule, or list the rules that are live at a place
///
/// With RULE: the rule with all defaults and lists filled in, its cost, and, if a place or a text
/// is given, whether it fires there and if not, why. Without RULE: every rule that is live at the
/// place, and why the others are not.
///
///     ttsr explain lang/rust/box-leak --path src/a.rs --text 'Box::leak(b)'
///
///     ttsr explain --channel tool-input --tool bash
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Options {
    /// The full id of the rule, `pack/rule`
    #[arg(required_unless_present_any = ["tool", "path", "channel", "outcome", "agent", "model", "provider"])]
    rule: Option<String>,
    #[command(flatten)]
    packs: WorkspaceArgs,
    #[command(flatten)]
    place: PlaceArgs,
    /// Text to try the rule on: the content of the part, or the argument of the tool call
    #[arg(
        long,
        value_name = "TEXT",
        requires = "rule",
        allow_hyphen_values = true
    )]
    text: Option<String>,
    #[command(flatten)]
    format: FormatArg,
}

#[derive(Debug, Args)]
struct PlaceArgs {
    /// The name of the called tool
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
    /// The file that the call refers to
    #[arg(long, value_name = "FILE")]
    path: Option<String>,
    /// The channel, such as `text` or `tool-input` [default: `tool-output` if an outcome is given, else `tool-input` if a
    /// tool or a file is given]
    #[arg(long, value_name = "CHANNEL", value_parser = channel)]
    channel: Option<Channel>,
    /// The outcome of the tool call
    #[arg(long, value_name = "OUTCOME", value_parser = outcomes())]
    outcome: Option<ToolOutcome>,
    /// The name of the agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The name of the model
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The name of the provider
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
}

fn channel(name: &str) -> Result<Channel, String> {
    let names = Channel::ALL.map(Channel::name).join(", ");
    Channel::from_name(name).ok_or_else(|| format!("expected one of {names}"))
}

pub(crate) fn run(options: &Options) -> Result<ExitStatus, CommandError> {
    check_outcome(options.place.outcome, options.place.channel)?;
    let pack = load::load_in(&options.packs, &[])?;
    let mut out = RecordWriter::new(options.format.format);
    match &options.rule {
        Some(id) => explain_rule(options, &pack, find(&pack, id)?, &mut out)?,
        None => explain_all_rules(&options.place, &pack, &mut out)?,
    }
    out.flush()?;
    Ok(ExitStatus::Clean)
}

fn find<'p>(pack: &'p Pack, id: &str) -> Result<&'p Rule, CommandError> {
    let found = pack.find(id).map(|id| pack.rule(id));
    found.ok_or_else(|| {
        let hint = match pack.nearest_rule_id(id) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`ttsr list` shows all".to_owned(),
        };
        CommandError::Message(format!("there is no rule `{}`; {hint}", Escaped(id)))
    })
}

fn explain_rule(
    options: &Options,
    pack: &Pack,
    rule: &Rule,
    out: &mut RecordWriter,
) -> Result<(), CommandError> {
    out.write(&ExplainedRule::new(rule)?)?;
    let place = &options.place;
    if !place.is_given() && options.text.is_none() {
        return Ok(());
    }
    let because = place.reasons_not_live(rule, pack.root())?;
    let tried = match &options.text {
        Some(text) if because.is_empty() => Some(RuleTrial::new(rule, pack, place, text)?),
        _ => None,
    };
    out.write(&LiveRule {
        rule: &rule.id,
        live: because.is_empty(),
        because,
        tried,
    })?;
    Ok(())
}

fn explain_all_rules(
    place: &PlaceArgs,
    pack: &Pack,
    out: &mut RecordWriter,
) -> Result<(), CommandError> {
    let mut live = 0;
    for rule in pack.rules() {
        let because = place.reasons_not_live(rule, pack.root())?;
        live += usize::from(because.is_empty());
        out.write(&LiveRule {
            rule: &rule.id,
            live: because.is_empty(),
            because,
            tried: None,
        })?;
    }
    out.flush()?;
    print_message(&format_args!("{live} of {} rules live", pack.rules().len()));
    Ok(())
}

const PART: PartId = PartId(0);
const PROBE: &str = "probe";

impl PlaceArgs {
    fn is_given(&self) -> bool {
        let names = [
            &self.tool,
            &self.path,
            &self.agent,
            &self.model,
            &self.provider,
        ];
        self.channel.is_some() || self.outcome.is_some() || names.into_iter().any(Option::is_some)
    }

    fn channel(&self) -> Option<Channel> {
        let is_output = self.outcome.is_some();
        let is_call = self.tool.is_some() || self.path.is_some();
        self.channel
            .or(is_output.then_some(Channel::ToolOutput))
            .or(is_call.then_some(Channel::ToolInput))
    }

    /// Returns the reasons why the rule is not live here, empty if it is live. A property that was not given is no
    /// reason.
    fn reasons_not_live(
        &self,
        rule: &Rule,
        root: Option<&str>,
    ) -> Result<Vec<String>, CommandError> {
        let mut because = Vec::new();
        if let Some(channel) = self.channel().filter(|channel| !rule.on.contains(channel)) {
            let on: Vec<&str> = rule.on.iter().map(|channel| channel.name()).collect();
            because.push(format!(
                "it reads {}, not {}",
                on.join(", "),
                channel.name()
            ));
        }
        let channel = self.channel();
        let has_tool =
            channel.is_none_or(|on| matches!(on, Channel::ToolInput | Channel::ToolOutput));
        if let Some(tool) = self.tool.as_ref().filter(|_| has_tool)
            && !rule.tools.is_empty()
            && !self.admits(rule, root, ScopeDimension::Tools)?
        {
            because.push(format!(
                "`{tool}` matches none of its `tools` {:?}",
                rule.tools
            ));
        }
        if let (Some(given), Some(wanted)) = (self.outcome, rule.outcome)
            && given != wanted
        {
            because.push(format!(
                "it reads the output of calls with the outcome `{}`, not `{}`",
                wanted.name(),
                given.name()
            ));
        }
        let is_call = channel == Some(Channel::ToolInput);
        match &self.path {
            _ if rule.paths.is_empty() => {}
            Some(path) if !self.admits(rule, root, ScopeDimension::Paths)? => {
                because.push(format!(
                    "`{path}` matches none of its `paths` {:?}",
                    rule.paths
                ));
            }
            None if is_call
                && self.tool.is_some()
                && !self.admits(rule, root, ScopeDimension::Paths)? =>
            {
                because.push(format!(
                    "it applies only to `paths` {:?}, and no file is given",
                    rule.paths
                ));
            }
            _ => {}
        }
        because.extend(self.origin_against(rule)?);
        Ok(because)
    }

    /// Returns true if the scope of the rule admits this call in the given dimension. The library evaluates the globs.
    fn admits(
        &self,
        rule: &Rule,
        root: Option<&str>,
        dimension: ScopeDimension,
    ) -> Result<bool, CommandError> {
        let mut probe = probe_rule(rule);
        probe.on = vec![Channel::ToolInput];
        match dimension {
            ScopeDimension::Tools => probe.tools.clone_from(&rule.tools),
            ScopeDimension::Paths => probe.paths.clone_from(&rule.paths),
        }
        let pack = load::build_in(root, [probe].into_iter())?;
        let input = match &self.path {
            Some(path) => serde_json::json!({ "path": path, "content": PROBE }),
            None => serde_json::json!({ "content": PROBE }),
        };
        let mut stream = pack.stream();
        stream.open(PART, Channel::ToolInput);
        let mut hits = stream
            .set_tool(PART, self.tool.as_deref().unwrap_or("tool"), "call")
            .len();
        hits += stream.push(PART, input.to_string().as_bytes()).len();
        hits += stream.finish().len();
        Ok(hits > 0)
    }

    fn origin_against(&self, rule: &Rule) -> Result<Vec<String>, CommandError> {
        let mut because = Vec::new();
        for (what, name, globs) in [
            ("agents", &self.agent, &rule.agents),
            ("models", &self.model, &rule.models),
            ("providers", &self.provider, &rule.providers),
        ] {
            let Some(name) = name.as_ref().filter(|_| !globs.is_empty()) else {
                continue;
            };
            let mut probe = probe_rule(rule);
            let mut origin = Origin::default();
            match what {
                "agents" => (probe.agents, origin.agent) = (globs.clone(), Some(name.clone())),
                "models" => (probe.models, origin.model) = (globs.clone(), Some(name.clone())),
                _ => (probe.providers, origin.provider) = (globs.clone(), Some(name.clone())),
            }
            let pack = load::build([probe].into_iter())?;
            let id = pack.find(&rule.id);
            let mut session = pack.session();
            session.set_origin(origin);
            if !id.is_some_and(|id| session.applies(id)) {
                because.push(format!("`{name}` matches none of its `{what}` {globs:?}"));
            }
        }
        Ok(because)
    }
}

#[derive(Clone, Copy)]
enum ScopeDimension {
    Tools,
    Paths,
}

/// Returns a rule with the same id that searches for one word.
fn probe_rule(rule: &Rule) -> Rule {
    Rule::new(rule.id.clone(), vec![Pattern::literal(PROBE)])
}

/// A rule as it takes effect, with its cost.
#[derive(Serialize)]
#[serde(tag = "event", rename = "rule")]
struct ExplainedRule<'a> {
    rule: &'a str,
    #[serde(flatten)]
    keys: Map<String, Value>,
    cost: CompileCost,
    #[serde(skip)]
    toml: String,
}

/// The nanoseconds that a byte takes at worst in a rule of few states: the byte may end a match, or a command that is compared
/// with 64 others. The limit of `benches/instructions/growth.rs` stands for as many.
const MATCH_NANOSECONDS: usize = 2_000;

/// The nanoseconds that a byte takes at worst for each state, on average over a text that leads to new states.
const STATE_NANOSECONDS: usize = 1;

/// The cost of a rule compiled alone.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct CompileCost {
    /// Number of states of its automata, over all channels.
    states: usize,
    /// True if each of its patterns requires a literal.
    literal: bool,
    /// Maximum number of bytes of a part that a stream retains for it.
    retained_bytes: u64,
    /// The nanoseconds that a byte of a long text takes on average in the worst text. An estimate, linear in the states of a
    /// channel: its factors are measured on hostile texts, by `instructions -- --growth` and `bounds -- rules`.
    worst_nanoseconds: usize,
}

impl CompileCost {
    pub(crate) fn measure(rule: &Rule) -> Result<CompileCost, CommandError> {
        let pack = load::build([rule.clone()].into_iter())?;
        let states = rule.on.iter().map(|channel| {
            let automata = pack.automata(*channel);
            automata.map(|automaton| automaton.nfa_states).sum()
        });
        let states: Vec<usize> = states.collect();
        let most_states = states.iter().max().copied().unwrap_or_default();
        Ok(CompileCost {
            states: states.iter().sum(),
            literal: rule.condition.patterns().all(has_literal),
            retained_bytes: rule.retained_bytes(pack.limits()),
            worst_nanoseconds: MATCH_NANOSECONDS + STATE_NANOSECONDS * most_states,
        })
    }

    /// Returns the cost in words.
    pub(crate) fn summary(&self) -> String {
        let literal = match self.literal {
            true => "a literal in every pattern",
            false => "a pattern without a literal",
        };
        let kept = self.retained_bytes;
        format!(
            "{} automaton states, {literal}; retains at most {kept} bytes of a part; about {:.1} µs a byte at worst",
            self.states,
            self.worst_nanoseconds as f64 / 1e3
        )
    }
}

/// Returns true if every match begins or ends with one of a small set of literals of two bytes or more.
fn has_literal(pattern: &Pattern) -> bool {
    let Ok(hir) = regex_syntax::parse(&pattern.to_regex()) else {
        // Only a pattern with look-around fails to parse here; its literals are unknown.
        return false;
    };
    let mut suffixes = Extractor::new();
    suffixes.kind(regex_syntax::hir::literal::ExtractKind::Suffix);
    [Extractor::new(), suffixes].iter().any(|extractor| {
        let found = extractor.extract(&hir);
        found.min_literal_len().is_some_and(|bytes| bytes >= 2)
    })
}

impl<'a> ExplainedRule<'a> {
    fn new(rule: &'a Rule) -> Result<ExplainedRule<'a>, CommandError> {
        Ok(ExplainedRule {
            rule: &rule.id,
            keys: effective::keys(rule),
            cost: CompileCost::measure(rule)?,
            toml: effective::toml(rule),
        })
    }
}

impl OutputRecord for ExplainedRule<'_> {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "# {STRONG}{}{STRONG:#}", Escaped(self.rule))?;
        for line in self.toml.lines() {
            writeln!(out, "{}", Escaped(line))?;
        }
        writeln!(out, "\n# cost: {}", self.cost.summary())
    }
}

/// One rule and the reasons why it is not live at a place.
#[derive(Serialize)]
#[serde(tag = "event", rename = "live")]
struct LiveRule<'a> {
    rule: &'a str,
    live: bool,
    because: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tried: Option<RuleTrial>,
}

/// The result of trying a rule on a text.
#[derive(Serialize)]
struct RuleTrial {
    hits: bool,
    /// The key that prevents a hit, if removing one key is enough.
    because: Option<&'static str>,
    /// The end of the match and the offset at which it was decided, in bytes of the part.
    end: Option<u64>,
    decided: Option<u64>,
    matched: Option<String>,
    /// The number of possible matches that are not hits because they exceed a limit.
    #[serde(skip_serializing_if = "is_zero")]
    undecided: u64,
    /// The rendered message of the rule for this match.
    message: Option<String>,
    /// The capture groups of its patterns, each with its text in the first match of its pattern.
    captures: Vec<CapturedGroup>,
    /// Each pattern in the order of the rule, with true if it matches by itself.
    patterns: Vec<(String, bool)>,
    /// The commands of the text, one on each line, if the rule has patterns of commands.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    commands: Vec<String>,
}

/// The text of a capture group.
#[derive(Serialize)]
struct CapturedGroup {
    pattern: String,
    /// The name or the number of the group.
    group: String,
    /// `None` if the group did not take part in the match.
    value: Option<String>,
}

impl RuleTrial {
    fn new(
        rule: &Rule,
        pack: &Pack,
        place: &PlaceArgs,
        text: &str,
    ) -> Result<RuleTrial, CommandError> {
        let root = pack.root();
        let channel = place.channel().unwrap_or(rule.on[0]);
        let part = ExamplePart::at(
            rule,
            channel,
            text,
            (place.tool.as_deref(), place.path.as_deref()),
        );
        let alone = first_hit(rule, root, &part)?;
        let with_exceptions = pack.with_rules(|it| it.id == rule.id);
        let found = with_exceptions.map_or(alone.clone(), |pack| first_hit_in(&pack, &part));
        let is_allowed = alone.is_some() && found.is_none();
        let undecided = undecided(rule, pack, &part, None);
        let mut patterns = Vec::new();
        let condition = &rule.condition;
        let roles = [
            ("any", &condition.any),
            ("all", &condition.all),
            ("sequence", &condition.sequence),
            ("none", &condition.none),
        ];
        let patterns_of = |(role, patterns): (&'static str, &'_ Vec<Pattern>)| {
            patterns
                .iter()
                .map(move |pattern| (role, pattern.clone()))
                .collect::<Vec<_>>()
        };
        for (role, mut pattern) in roles.into_iter().flat_map(patterns_of) {
            let exception = pattern.unless.take();
            let name = format!("{role}: {} {:?}", effective::kind(&pattern), pattern.text);
            let matches = matches_alone(rule, pattern.clone(), root, &part)?;
            patterns.push((name, matches));
            if let Some(exception) = exception {
                let name = format!("{role}: unless {exception:?}");
                (pattern.kind, pattern.text) = (PatternKind::Regex, exception);
                patterns.push((name, matches_alone(rule, pattern, root, &part)?));
            }
        }
        let (end, decided, matched) = match found {
            Some((end, decided, matched)) => (Some(end), Some(decided), Some(matched)),
            None => (None, None, None),
        };
        let because = match end {
            Some(_) => None,
            None if is_allowed => Some("an `[[allow]]` excepts it"),
            None if undecided > 0 => Some("a possible match exceeds a limit and cannot be decided"),
            None => why::blocking_key(rule, root, &part),
        };
        let message = match end {
            Some(_) => message(rule, &part)?,
            None => None,
        };
        Ok(RuleTrial {
            hits: end.is_some(),
            because,
            message,
            captures: captures(rule, text),
            end,
            decided,
            matched,
            undecided,
            patterns,
            commands: commands(rule, text),
        })
    }
}

/// Returns true if the pattern, as the only one of the rule, matches in the part.
fn matches_alone(
    rule: &Rule,
    pattern: Pattern,
    root: Option<&str>,
    part: &ExamplePart,
) -> Result<bool, CommandError> {
    let mut alone = Rule::new(rule.id.clone(), Vec::new());
    match pattern.kind {
        PatternKind::Command => alone.on = vec![Channel::ToolInput],
        _ => alone.on.clone_from(&rule.on),
    }
    alone.condition = Condition::any(vec![pattern]);
    alone.action = Action::Observe;
    alone.args.clone_from(&rule.args);
    Ok(first_hit(&alone, root, part)?.is_some())
}

/// Returns the message of the rule for that example, as a session renders it.
pub(crate) fn example_message(rule: &Rule, text: &str) -> Result<Option<String>, CommandError> {
    let part = ExamplePart::at(rule, rule.on[0], text, (None, None));
    message(rule, &part)
}

/// Returns the message of the rule for its first hit, as a session renders it.
fn message(rule: &Rule, part: &ExamplePart) -> Result<Option<String>, CommandError> {
    // The agent, model and provider were checked before.
    let mut rule = rule.clone();
    for globs in [&mut rule.agents, &mut rule.models, &mut rule.providers] {
        globs.clear();
    }
    let pack = load::build([rule].into_iter())?;
    let mut conversation = Conversation::new(&pack);
    conversation.start_turn();
    let outcome = pack.rules()[0].outcome;
    let decisions = match part.screen(&mut conversation, outcome) {
        Some(screened) => screened.decisions,
        None => {
            // The decisions up to a cut are enough.
            part.read(&mut conversation, None, outcome).ok();
            conversation.decisions().to_vec()
        }
    };
    let decision = decisions.into_iter().find(|it| it.rule.is_some());
    let message = decision.map(|decision| decision.message);
    Ok(message.filter(|message| !message.is_empty()))
}

/// Returns the commands of a shell text as lines for people, if the rule has patterns of commands.
fn commands(rule: &Rule, text: &str) -> Vec<String> {
    let mut patterns = rule.condition.patterns();
    if !patterns.any(|pattern| pattern.kind == PatternKind::Command) {
        return Vec::new();
    }
    let mut reader = CommandReader::new(CommandLimits::default());
    let mut trace = CommandTrace::default();
    reader.push(&Chunk::verbatim(text.as_bytes(), 0), &mut trace);
    reader.finish(&mut trace);
    trace.to_string().lines().map(str::to_owned).collect()
}

/// Returns the groups of every pattern that matches the text, in the order of the rule.
fn captures(rule: &Rule, text: &str) -> Vec<CapturedGroup> {
    let mut captured = Vec::new();
    let patterns = rule.condition.patterns();
    for pattern in patterns.filter(|pattern| pattern.kind != PatternKind::Command) {
        // A pattern that loads is accepted by this engine too, except for the engine's own limits: then no group is shown.
        let Ok(regex) = fancy_regex::Regex::new(&pattern.to_regex()) else {
            continue;
        };
        let Ok(Some(found)) = regex.captures(text) else {
            continue;
        };
        for (number, name) in regex.capture_names().enumerate().skip(1) {
            captured.push(CapturedGroup {
                pattern: pattern.text.clone(),
                group: name.map_or_else(|| number.to_string(), str::to_owned),
                value: found.get(number).map(|group| group.as_str().to_owned()),
            });
        }
    }
    captured
}

/// Returns the end, the deciding offset and the text of the first hit.
fn first_hit(
    rule: &Rule,
    root: Option<&str>,
    part: &ExamplePart,
) -> Result<Option<(u64, u64, String)>, CommandError> {
    let pack = load::build_in(root, [rule.clone()].into_iter())?;
    Ok(first_hit_in(&pack, part))
}

/// Returns the first hit of a pack with one rule.
fn first_hit_in(pack: &Pack, part: &ExamplePart) -> Option<(u64, u64, String)> {
    let (stream, hits) = part.stream(pack, None, pack.rules()[0].outcome);
    let first = hits.first()?;
    Some((first.end, first.decided, stream.matched(first).to_owned()))
}

impl OutputRecord for LiveRule<'_> {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        let is = if self.live { "live" } else { "not live" };
        write!(out, "{STRONG}{}{STRONG:#}: {is}", Escaped(self.rule))?;
        for (index, reason) in self.because.iter().enumerate() {
            let before = if index == 0 { ":" } else { ";" };
            write!(out, "{before} {}", Escaped(reason))?;
        }
        writeln!(out)?;
        let Some(tried) = &self.tried else {
            return Ok(());
        };
        match (tried.decided, &tried.matched) {
            (Some(decided), Some(matched)) => writeln!(
                out,
                "    it hits: {:?}, decided after {decided} bytes of the part",
                Escaped(matched).to_string()
            )?,
            _ => match tried.because {
                Some(because) => writeln!(out, "    it does not hit: {because}")?,
                None => writeln!(out, "    it does not hit")?,
            },
        }
        if tried.undecided > 0 {
            writeln!(out, "    undecided possible matches: {}", tried.undecided)?;
        }
        for CapturedGroup { group, value, .. } in &tried.captures {
            match value {
                Some(value) => writeln!(
                    out,
                    "    group {}: {:?}",
                    Escaped(group),
                    Escaped(value).to_string()
                )?,
                None => writeln!(out, "    group {}: no match", Escaped(group))?,
            }
        }
        if let Some(message) = &tried.message {
            writeln!(out, "    message:")?;
            for line in message.lines() {
                writeln!(out, "      {}", Escaped(line))?;
            }
        }
        for (pattern, matches) in &tried.patterns {
            let matches = if *matches {
                "matches"
            } else {
                "does not match"
            };
            writeln!(out, "    {} {matches} by itself", Escaped(pattern))?;
        }
        if !tried.commands.is_empty() {
            writeln!(out, "    commands, with [flags] and (operands):")?;
        }
        for command in &tried.commands {
            writeln!(out, "      {}", Escaped(command))?;
        }
        Ok(())
    }
}
