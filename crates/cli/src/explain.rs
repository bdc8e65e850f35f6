//! `ttsr explain`: what a rule comes to, and where and why it is live or silent.

use std::io::{self, Write};

use clap::Args;
use regex_syntax::hir::literal::Extractor;
use serde::Serialize;
use serde_json::{Map, Value};
use ttsr::rule::Condition;
use ttsr::{Action, Channel, Origin, Pack, PartId, Pattern, Rule, Session, Stream};

use crate::args::{FormatArg, WorkspaceArgs};
use crate::output::{Escaped, Out, Record, STRONG, tell};
use crate::test::part::Part;
use crate::{Outcome, Stop, effective, packs};

mod why;

/// Explain a rule, or say which rules are live at a place
///
/// With RULE: the rule with defaults and lists filled in, what it costs, and, where a place or a
/// text is given, whether it would fire there and why not. Without RULE: every rule that is live at
/// the place, and why the others are not.
///
///     ttsr explain lang/rust/box-leak --path src/a.rs --text 'Box::leak(b)'
///
///     ttsr explain --channel tool-input --tool bash
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Options {
    /// The rule's full id, `pack/rule`
    #[arg(required_unless_present_any = ["tool", "path", "channel", "agent", "model", "provider"])]
    rule: Option<String>,
    #[command(flatten)]
    packs: WorkspaceArgs,
    #[command(flatten)]
    place: PlaceArgs,
    /// A text to try the rule on: what the part, or the argument of the tool call, holds
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
    /// The name of the tool that is called
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
    /// The file that the call is about
    #[arg(long, value_name = "FILE")]
    path: Option<String>,
    /// The channel, such as `text` or `tool-input` [default: `tool-input` if there is a tool or a file]
    #[arg(long, value_name = "CHANNEL", value_parser = channel)]
    channel: Option<Channel>,
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
    Channel::from_name(name).ok_or_else(|| format!("channels are: {names}"))
}

pub(crate) fn run(options: &Options) -> Result<Outcome, Stop> {
    let pack = packs::load_in(&options.packs)?;
    let mut out = Out::new(options.format.format);
    match &options.rule {
        Some(id) => one(options, &pack, find(&pack, id)?, &mut out)?,
        None => all(&options.place, &pack, &mut out)?,
    }
    out.flush()?;
    Ok(Outcome::Clean)
}

fn find<'p>(pack: &'p Pack, id: &str) -> Result<&'p Rule, Stop> {
    let found = pack.find(id).map(|id| pack.rule(id));
    found.ok_or_else(|| {
        let hint = match pack.nearest(id) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`ttsr list` shows all".to_owned(),
        };
        Stop::Because(format!("there is no rule `{}`; {hint}", Escaped(id)))
    })
}

fn one(options: &Options, pack: &Pack, rule: &Rule, out: &mut Out) -> Result<(), Stop> {
    out.write(&Expanded::new(rule)?)?;
    let place = &options.place;
    if !place.is_given() && options.text.is_none() {
        return Ok(());
    }
    let because = place.against(rule, pack.root())?;
    let tried = match &options.text {
        Some(text) if because.is_empty() => Some(Tried::new(rule, pack.root(), place, text)?),
        _ => None,
    };
    out.write(&Live {
        rule: &rule.id,
        live: because.is_empty(),
        because,
        tried,
    })?;
    Ok(())
}

fn all(place: &PlaceArgs, pack: &Pack, out: &mut Out) -> Result<(), Stop> {
    let mut live = 0;
    for rule in pack.rules() {
        let because = place.against(rule, pack.root())?;
        live += usize::from(because.is_empty());
        out.write(&Live {
            rule: &rule.id,
            live: because.is_empty(),
            because,
            tried: None,
        })?;
    }
    out.flush()?;
    tell(&format_args!("{live} of {} rules live", pack.rules().len()));
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
        self.channel.is_some() || names.into_iter().any(Option::is_some)
    }

    fn channel(&self) -> Option<Channel> {
        let is_call = self.tool.is_some() || self.path.is_some();
        self.channel.or(is_call.then_some(Channel::ToolInput))
    }

    /// Why the rule is not live here; nothing if it is. What was not said is no reason.
    fn against(&self, rule: &Rule, root: Option<&str>) -> Result<Vec<String>, Stop> {
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
            && !self.admits(rule, root, Dimension::Tools)?
        {
            because.push(format!("`{tool}` is none of its tools {:?}", rule.tools));
        }
        let is_call = channel == Some(Channel::ToolInput);
        match &self.path {
            _ if rule.paths.is_empty() => {}
            Some(path) if !self.admits(rule, root, Dimension::Paths)? => {
                because.push(format!("`{path}` is none of its paths {:?}", rule.paths));
            }
            None if is_call
                && self.tool.is_some()
                && !self.admits(rule, root, Dimension::Paths)? =>
            {
                because.push(format!(
                    "it is bound to paths {:?}, and no file is given",
                    rule.paths
                ));
            }
            _ => {}
        }
        because.extend(self.origin_against(rule)?);
        Ok(because)
    }

    /// Whether a call like this one is in that part of the rule's scope. What globs mean is left to the library.
    fn admits(&self, rule: &Rule, root: Option<&str>, dimension: Dimension) -> Result<bool, Stop> {
        let mut probe = probe(rule);
        probe.on = vec![Channel::ToolInput];
        match dimension {
            Dimension::Tools => probe.tools.clone_from(&rule.tools),
            Dimension::Paths => probe.paths.clone_from(&rule.paths),
        }
        let pack = packs::build_in(root, [probe].into_iter())?;
        let input = match &self.path {
            Some(path) => serde_json::json!({ "path": path, "content": PROBE }),
            None => serde_json::json!({ "content": PROBE }),
        };
        let mut stream = pack.stream();
        stream.open(PART, Channel::ToolInput);
        let mut hits = stream
            .tool(PART, self.tool.as_deref().unwrap_or("tool"), "call")
            .len();
        hits += stream.push(PART, input.to_string().as_bytes()).len();
        hits += stream.finish().len();
        Ok(hits > 0)
    }

    fn origin_against(&self, rule: &Rule) -> Result<Vec<String>, Stop> {
        let mut because = Vec::new();
        for (what, name, globs) in [
            ("agents", &self.agent, &rule.agents),
            ("models", &self.model, &rule.models),
            ("providers", &self.provider, &rule.providers),
        ] {
            let Some(name) = name.as_ref().filter(|_| !globs.is_empty()) else {
                continue;
            };
            let mut probe = probe(rule);
            let mut origin = Origin::default();
            match what {
                "agents" => (probe.agents, origin.agent) = (globs.clone(), Some(name.clone())),
                "models" => (probe.models, origin.model) = (globs.clone(), Some(name.clone())),
                _ => (probe.providers, origin.provider) = (globs.clone(), Some(name.clone())),
            }
            let pack = packs::build([probe].into_iter())?;
            let id = pack.find(&rule.id);
            let mut session = pack.session();
            session.set_origin(origin);
            if !id.is_some_and(|id| session.applies(id)) {
                because.push(format!("`{name}` is none of its {what} {globs:?}"));
            }
        }
        Ok(because)
    }
}

#[derive(Clone, Copy)]
enum Dimension {
    Tools,
    Paths,
}

/// A rule of that id that looks for a word and nothing else.
fn probe(rule: &Rule) -> Rule {
    Rule::new(rule.id.clone(), vec![Pattern::literal(PROBE)])
}

/// A rule as it takes effect, and what it costs.
#[derive(Serialize)]
#[serde(tag = "event", rename = "rule")]
struct Expanded<'a> {
    rule: &'a str,
    #[serde(flatten)]
    keys: Map<String, Value>,
    cost: Cost,
    #[serde(skip)]
    toml: String,
}

/// What a rule costs where it is alone.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Cost {
    /// States of its automata, of all channels together.
    states: usize,
    /// Whether each of its patterns has text in it that must be there.
    literal: bool,
    /// Most bytes of the text of a part that a stream keeps for it.
    retained_bytes: u64,
}

impl Cost {
    pub(crate) fn of(rule: &Rule) -> Result<Cost, Stop> {
        let pack = packs::build([rule.clone()].into_iter())?;
        let automata = rule.on.iter().flat_map(|channel| pack.automata(*channel));
        Ok(Cost {
            states: automata.map(|automaton| automaton.nfa_states).sum(),
            literal: rule.condition.patterns().all(has_literal),
            retained_bytes: rule.retained_bytes(pack.limits()),
        })
    }

    /// In words.
    pub(crate) fn shown(&self) -> String {
        let literal = match self.literal {
            true => "literal text in every pattern",
            false => "a pattern without literal text",
        };
        let kept = self.retained_bytes;
        format!(
            "{} automaton states, {literal}; keeps at most {kept} bytes of a part",
            self.states
        )
    }
}

/// Whether every match begins with, or ends with, one of a few texts of two bytes or more.
fn has_literal(pattern: &Pattern) -> bool {
    let Ok(hir) = regex_syntax::parse(&pattern.to_regex()) else {
        // Only look-around is not read here: what is around it is not known to be literal.
        return false;
    };
    let mut suffixes = Extractor::new();
    suffixes.kind(regex_syntax::hir::literal::ExtractKind::Suffix);
    [Extractor::new(), suffixes].iter().any(|extractor| {
        let found = extractor.extract(&hir);
        found.min_literal_len().is_some_and(|bytes| bytes >= 2)
    })
}

impl<'a> Expanded<'a> {
    fn new(rule: &'a Rule) -> Result<Expanded<'a>, Stop> {
        Ok(Expanded {
            rule: &rule.id,
            keys: effective::keys(rule),
            cost: Cost::of(rule)?,
            toml: effective::toml(rule),
        })
    }
}

impl Record for Expanded<'_> {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "# {STRONG}{}{STRONG:#}", Escaped(self.rule))?;
        for line in self.toml.lines() {
            writeln!(out, "{}", Escaped(line))?;
        }
        writeln!(out, "\n# cost: {}", self.cost.shown())
    }
}

/// Whether a rule is live at a place.
#[derive(Serialize)]
#[serde(tag = "event", rename = "live")]
struct Live<'a> {
    rule: &'a str,
    live: bool,
    because: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tried: Option<Tried>,
}

/// What the rule made of a text.
#[derive(Serialize)]
struct Tried {
    hits: bool,
    /// Why it does not hit, where one key keeps it from that.
    because: Option<&'static str>,
    /// The end of the match, and where it became certain, in bytes of the part.
    end: Option<u64>,
    decided: Option<u64>,
    matched: Option<String>,
    /// The message of the rule for this match.
    message: Option<String>,
    /// The groups of its patterns, with the text that each one captured in the first match of its pattern.
    captures: Vec<Captured>,
    /// By pattern, in the order of the rule: whether it matches by itself.
    patterns: Vec<(String, bool)>,
}

/// The text of a group.
#[derive(Serialize)]
struct Captured {
    pattern: String,
    /// Its name, or its number.
    group: String,
    /// None if the match went past the group.
    value: Option<String>,
}

impl Tried {
    fn new(rule: &Rule, root: Option<&str>, place: &PlaceArgs, text: &str) -> Result<Tried, Stop> {
        let channel = place.channel().unwrap_or(rule.on[0]);
        let part = Part::at(
            rule,
            channel,
            text,
            (place.tool.as_deref(), place.path.as_deref()),
        );
        let found = first_hit(rule, root, &part)?;
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
        for (role, pattern) in roles.into_iter().flat_map(patterns_of) {
            let mut alone = Rule::new(rule.id.clone(), Vec::new());
            alone.condition = Condition::any(vec![pattern.clone()]);
            alone.action = Action::Observe;
            alone.on.clone_from(&rule.on);
            alone.args.clone_from(&rule.args);
            let name = format!("{role}: {} {:?}", effective::kind(&pattern), pattern.text);
            patterns.push((name, first_hit(&alone, root, &part)?.is_some()));
        }
        let (end, decided, matched) = match found {
            Some((end, decided, matched)) => (Some(end), Some(decided), Some(matched)),
            None => (None, None, None),
        };
        let because = match end {
            Some(_) => None,
            None => why::not(rule, root, &part),
        };
        let message = match end {
            Some(_) => message(rule, &part)?,
            None => None,
        };
        Ok(Tried {
            hits: end.is_some(),
            because,
            message,
            captures: captures(rule, text),
            end,
            decided,
            matched,
            patterns,
        })
    }
}

/// The message of the rule for its first hit, as a session renders it.
fn message(rule: &Rule, part: &Part) -> Result<Option<String>, Stop> {
    // Whose reply it is was settled before.
    let mut rule = rule.clone();
    for globs in [&mut rule.agents, &mut rule.models, &mut rule.providers] {
        globs.clear();
    }
    let pack = packs::build([rule].into_iter())?;
    let mut session = pack.session();
    session.begin_turn();
    let mut stream = session.stream();
    let mut message = None;
    let mut note = |session: &Session, stream: &Stream| {
        let mut decisions = session.decisions().iter();
        let decision = decisions.find(|decision| decision.hit().is_some());
        let rendered = decision.map(|decision| stream.message(decision));
        message = message.take().or(rendered);
    };
    let _ = session.open(&mut stream, PART, part.channel);
    if let Some(call) = &part.call {
        let _ = session.tool(&mut stream, PART, &call.tool, "call");
        note(&session, &stream);
    }
    let _ = session.push(&mut stream, PART, &part.bytes);
    note(&session, &stream);
    let _ = session.close(&mut stream, PART);
    note(&session, &stream);
    Ok(message.filter(|message| !message.is_empty()))
}

/// The groups of every pattern that matches the text, in the order of the rule.
fn captures(rule: &Rule, text: &str) -> Vec<Captured> {
    let mut captured = Vec::new();
    for pattern in rule.condition.patterns() {
        // A pattern that loads is one that this engine takes, but for its own limits: then nothing is shown.
        let Ok(regex) = fancy_regex::Regex::new(&pattern.to_regex()) else {
            continue;
        };
        let Ok(Some(found)) = regex.captures(text) else {
            continue;
        };
        for (number, name) in regex.capture_names().enumerate().skip(1) {
            captured.push(Captured {
                pattern: pattern.text.clone(),
                group: name.map_or_else(|| number.to_string(), str::to_owned),
                value: found.get(number).map(|group| group.as_str().to_owned()),
            });
        }
    }
    captured
}

/// End, place of certainty and text of the first hit.
fn first_hit(
    rule: &Rule,
    root: Option<&str>,
    part: &Part,
) -> Result<Option<(u64, u64, String)>, Stop> {
    let pack = packs::build_in(root, [rule.clone()].into_iter())?;
    let mut stream = pack.stream();
    stream.open(PART, part.channel);
    let mut hits = Vec::new();
    if let Some(tool) = &part.tool {
        hits.extend_from_slice(&stream.tool(PART, tool, "call"));
    }
    hits.extend_from_slice(&stream.push(PART, &part.bytes));
    hits.extend_from_slice(&stream.finish());
    let first = hits.first();
    Ok(first.map(|hit| (hit.end, hit.decided, stream.matched(hit).to_owned())))
}

impl Record for Live<'_> {
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
                "    it hits: {:?}, certain after {decided} bytes of the part",
                Escaped(matched).to_string()
            )?,
            _ => match tried.because {
                Some(because) => writeln!(out, "    it does not hit: {because}")?,
                None => writeln!(out, "    it does not hit")?,
            },
        }
        for Captured { group, value, .. } in &tried.captures {
            match value {
                Some(value) => writeln!(
                    out,
                    "    group {}: {:?}",
                    Escaped(group),
                    Escaped(value).to_string()
                )?,
                None => writeln!(out, "    group {}: nothing", Escaped(group))?,
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
        Ok(())
    }
}
