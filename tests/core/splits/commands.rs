//! Patterns of commands hit as a model of them does that reads the whole text first, whatever the cut.
//!
//! The model collects the events of the command reader for the whole text, and judges complete commands with functions
//! written by hand. What the reader makes of a text is tested in `ttsr-views`.

use std::collections::{BTreeMap, BTreeSet};

use ttsr::{Channel, Pack, PartId};
use ttsr_testing::{Random, scale};
use ttsr_views::chunk::Chunk;
use ttsr_views::command::{
    CommandEvent, CommandId, CommandLimits, CommandReader, CommandSink, ParentRelation, WordRole,
};

const TEXTS: usize = 40_000;

/// The words of a complete command.
#[derive(Clone, Debug, Default)]
struct ModelCommand {
    name: String,
    /// The subcommands and operands.
    operands: Vec<(bool, String)>,
    /// The flags, each with its value.
    flags: Vec<(String, Option<String>)>,
    variables: Vec<(String, String)>,
    written: Vec<String>,
    read: Vec<String>,
    runs_input: bool,
    sources: BTreeSet<CommandId>,
    wrapper: Option<CommandId>,
}

#[derive(Default)]
struct Model {
    commands: BTreeMap<CommandId, ModelCommand>,
}

fn utf8(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl CommandSink for Model {
    fn event(&mut self, event: CommandEvent<'_>, _: u64) {
        match event {
            CommandEvent::Begin { command, parent } => {
                let known = self.commands.entry(command).or_default();
                let Some(parent) = parent else { return };
                match parent.relation {
                    ParentRelation::Wrapped => known.wrapper = Some(parent.command),
                    ParentRelation::Substitution => {
                        let outer = self.commands.entry(parent.command).or_default();
                        outer.sources.insert(command);
                    }
                    ParentRelation::Script => {}
                }
            }
            CommandEvent::Word(word) => {
                let text = utf8(word.text);
                let command = self.commands.entry(word.command).or_default();
                match word.role {
                    WordRole::Program { name } => command.name = utf8(name),
                    WordRole::Subcommand => command.operands.push((true, text)),
                    WordRole::Operand => command.operands.push((false, text)),
                    WordRole::Flag { name, value } => {
                        command.flags.push((utf8(name), value.map(utf8)));
                    }
                    WordRole::Value { flag } => command.flags.push((utf8(flag), Some(text))),
                    _ => {}
                }
            }
            CommandEvent::Assignment {
                command,
                name,
                value,
            } => {
                let variable = (utf8(name), utf8(value.text));
                let command = self.commands.entry(command).or_default();
                command.variables.push(variable);
            }
            CommandEvent::Redirection {
                command,
                operator,
                target,
                ..
            } => {
                let command = self.commands.entry(command).or_default();
                if operator.contains('>') {
                    command.written.push(utf8(target.text));
                } else if operator == "<" {
                    command.read.push(utf8(target.text));
                }
            }
            CommandEvent::Pipe { from, to } => {
                self.commands.entry(to).or_default().sources.insert(from);
            }
            CommandEvent::OutputIsCode { command, from } => {
                let command = self.commands.entry(command).or_default();
                command.runs_input = true;
                command.sources.insert(from);
            }
            CommandEvent::StdinIsCode { command, .. } => {
                self.commands.entry(command).or_default().runs_input = true;
            }
            _ => {}
        }
    }
}

impl Model {
    fn of(text: &str) -> Model {
        let mut reader = CommandReader::new(CommandLimits::default());
        let mut model = Model::default();
        reader.push(&Chunk::verbatim(text.as_bytes(), 0), &mut model);
        reader.finish(&mut model);
        model
    }

    /// Returns the commands whose output a command gets, directly or not.
    fn sources(&self, id: CommandId) -> BTreeSet<CommandId> {
        let mut found = BTreeSet::new();
        let mut left = vec![id];
        while let Some(next) = left.pop() {
            for source in &self.commands[&next].sources {
                if found.insert(*source) {
                    left.push(*source);
                }
            }
        }
        found.remove(&id);
        found
    }

    /// Returns a command and those that wrap it.
    fn with_wrappers(&self, id: CommandId) -> Vec<&ModelCommand> {
        let mut all = vec![&self.commands[&id]];
        while let Some(wrapper) = all[all.len() - 1].wrapper {
            all.push(&self.commands[&wrapper]);
        }
        all
    }

    fn has_flag(&self, id: CommandId, names: &[&str]) -> bool {
        let mut flags = self.commands[&id].flags.iter();
        flags.any(|(name, _)| names.contains(&name.as_str()))
    }

    fn operands(&self, id: CommandId, skip: usize) -> Vec<&str> {
        let all = self.commands[&id].operands.iter().skip(skip);
        let operands = all.filter(|(is_subcommand, _)| !is_subcommand);
        operands.map(|(_, text)| text.as_str()).collect()
    }

    /// Returns true if a command reads a file of that name, as [`RULES`] use it.
    fn reads(&self, id: CommandId, file: &str) -> bool {
        // `if=b` and `a/b` name the file `b`.
        let is_file = |text: &str| text.rsplit(['=', '/']).next() == Some(file);
        let own = |id: CommandId| {
            let command = &self.commands[&id];
            let mut operands = self.operands(id, 0).into_iter();
            let is_redirected = self
                .with_wrappers(id)
                .iter()
                .any(|it| it.read.iter().any(|path| is_file(path)));
            let mut values = command.flags.iter().filter_map(|(_, value)| value.as_ref());
            is_redirected || operands.any(is_file) || values.any(|value| is_file(value))
        };
        let inert = ["echo", "rm"];
        let sources = self.sources(id);
        let mut passed = sources
            .iter()
            .filter(|source| !inert.contains(&self.commands[source].name.as_str()));
        own(id) || passed.any(|source| own(*source))
    }
}

/// A rule, and the function that judges the same of a complete command.
type ModelRule = (&'static str, fn(&Model, CommandId) -> bool);

const RULES: [ModelRule; 12] = [
    ("command = 'rm'", |model, id| {
        model.commands[&id].name == "rm"
    }),
    (
        "command = 'rm', flags = ['-r|-R|--recursive', '-f|--force']",
        |model, id| {
            model.commands[&id].name == "rm"
                && model.has_flag(id, &["-r", "-R", "--recursive"])
                && model.has_flag(id, &["-f", "--force"])
        },
    ),
    (
        "command = '{rm,cat}', no-flags = ['-f|--force']",
        |model, id| {
            ["rm", "cat"].contains(&model.commands[&id].name.as_str())
                && !model.has_flag(id, &["-f", "--force"])
        },
    ),
    ("command = 'rm', operand = '^b'", |model, id| {
        let mut operands = model.operands(id, 0).into_iter();
        model.commands[&id].name == "rm" && operands.any(|operand| operand.starts_with('b'))
    }),
    ("command = 'foo bar', operand = 'b'", |model, id| {
        let command = &model.commands[&id];
        let is_bar = command
            .operands
            .first()
            .is_some_and(|(_, text)| text == "bar");
        let mut operands = model.operands(id, 1).into_iter();
        command.name == "foo" && is_bar && operands.any(|operand| operand.contains('b'))
    }),
    ("command = '?m', operands-all = 'b'", |model, id| {
        let name = &model.commands[&id].name;
        let operands = model.operands(id, 0);
        name.chars().count() == 2
            && name.ends_with('m')
            && !operands.is_empty()
            && operands.iter().all(|operand| operand.contains('b'))
    }),
    (
        "command = 'git push', flags = ['-f|--force']",
        |model, id| {
            let command = &model.commands[&id];
            let is_push = command
                .operands
                .first()
                .is_some_and(|(_, text)| text == "push");
            command.name == "git" && is_push && model.has_flag(id, &["-f", "--force"])
        },
    ),
    ("command = '*', env = ['X', 'Y=b*']", |model, id| {
        let all = model.with_wrappers(id);
        let mut variables = all.iter().flat_map(|it| &it.variables);
        !model.commands[&id].name.is_empty()
            && variables.any(|(name, value)| name == "X" || name == "Y" && value.starts_with('b'))
    }),
    ("command = '*', redirect-to = ['b']", |model, id| {
        let all = model.with_wrappers(id);
        !model.commands[&id].name.is_empty()
            && all.iter().any(|it| {
                it.written
                    .iter()
                    .any(|path| path.rsplit('/').next() == Some("b"))
            })
    }),
    ("command = 'nc', reads = ['b']", |model, id| {
        model.commands[&id].name == "nc" && model.reads(id, "b")
    }),
    (
        "command = '{cat,foo}', pipe-to = { command = 'sh', stdin-is-code = true }",
        |model, id| {
            let is_shell = |other: &CommandId| {
                let command = &model.commands[other];
                command.name == "sh" && command.runs_input && model.sources(*other).contains(&id)
            };
            ["cat", "foo"].contains(&model.commands[&id].name.as_str())
                && model.commands.keys().any(is_shell)
        },
    ),
    (
        "command = '{rm,sh,nc}', pipe-from = { command = 'cat', operand = 'b' }",
        |model, id| {
            let is_cat = |other: &CommandId| {
                let mut operands = model.operands(*other, 0).into_iter();
                model.commands[other].name == "cat" && operands.any(|it| it.contains('b'))
            };
            ["rm", "sh", "nc"].contains(&model.commands[&id].name.as_str())
                && model.sources(id).iter().any(is_cat)
        },
    ),
];

const PIECES: [&str; 54] = [
    "rm ",
    "rm ",
    "cat ",
    "cat ",
    "foo bar ",
    "git ",
    "git push ",
    "git push -f ",
    "push ",
    "sh ",
    "nc ",
    "echo ",
    "sudo ",
    "env ",
    "xargs ",
    "nice ",
    "b ",
    "b",
    "bb ",
    "a ",
    "a/b ",
    "-r ",
    "-f ",
    "-rf ",
    "--force ",
    "--rec ",
    "-- ",
    "-C a ",
    " | ",
    " | ",
    " | sh ",
    "| sh\n",
    "; ",
    "\n",
    " && ",
    " > b ",
    " < b ",
    ">b ",
    "X=1 ",
    "Y=b ",
    "Y=a ",
    "Z=rm; $Z ",
    "$(",
    ")",
    "`",
    "'",
    "\"",
    "\\",
    "{ ",
    "; } ",
    "<<b\n",
    "\nb\n",
    "eval ",
    "sh -c 'rm b' ",
];

fn pack() -> Pack {
    let mut text = String::from("schema = 1\n[pack]\nname = 't'\n");
    for (index, (pattern, _)) in RULES.iter().enumerate() {
        text += &format!(
            "[rule.r{index:02}]\ndescription = 'd'\non = ['tool-input']\nmatch.any = [{{ {pattern} }}]\n"
        );
    }
    Pack::from_toml(&text).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the numbers of the rules that hit the text of a command that is delivered in pieces.
fn hits(pack: &Pack, text: &str, random: &mut Random) -> BTreeSet<usize> {
    let mut stream = pack.stream();
    stream.open(PartId(0), Channel::ToolInput);
    let input = format!("{{\"command\":{}}}", serde_json::Value::from(text));
    let mut rest = input.as_bytes();
    let mut found = BTreeSet::new();
    while !rest.is_empty() {
        let len = (1 + random.below(9)).min(rest.len());
        let hits = stream.push(PartId(0), &rest[..len]);
        found.extend(hits.iter().map(|hit| hit.rule.index()));
        rest = &rest[len..];
    }
    found.extend(stream.finish().iter().map(|hit| hit.rule.index()));
    found
}

#[test]
fn each_requirement_of_a_command_is_decided_under_every_split() {
    let text = include_str!("../../data/commands.toml");
    let pack = Pack::from_toml(text).unwrap_or_else(|error| panic!("{error}"));
    let run = ttsr::test(&pack).unwrap_or_else(|error| panic!("{error}"));
    assert!(run >= 79, "only {run} examples");
}

#[test]
fn commands_hit_as_a_model_of_the_whole_text_does() {
    let pack = pack();
    let mut seen = [0; RULES.len()];
    for seed in 0..scale(TEXTS) as u64 {
        let mut random = Random::new(seed);
        let pieces = 1 + random.below(14);
        let text: String = (0..pieces).map(|_| random.pick(&PIECES)).collect();
        let model = Model::of(&text);
        let holds = |rule: &ModelRule| model.commands.keys().any(|id| rule.1(&model, *id));
        let rules = RULES.iter().enumerate();
        let expected: BTreeSet<usize> = rules
            .filter(|(_, rule)| holds(rule))
            .map(|(index, _)| index)
            .collect();
        assert_eq!(
            hits(&pack, &text, &mut random),
            expected,
            "seed {seed}: {text:?}"
        );
        expected.into_iter().for_each(|index| seen[index] += 1);
    }
    assert!(
        seen.iter().all(|hits| *hits > 0),
        "a rule never hits: {seen:?}"
    );
}

/// A command that has ended is dropped after many others, and its buffers serve a later command.
#[test]
fn a_command_knows_nothing_of_those_that_were_dropped_before_it() {
    let text = "schema = 1\n[pack]\nname = 't'\n[rule.r]\ndescription = 'd'\non = ['tool-input']\n\
        match.any = [{ command = 'rm', flags = ['-r'], operand = 'b', env = ['A=1'] }]\n";
    let pack = Pack::from_toml(text).unwrap_or_else(|error| panic!("{error}"));
    // Each of them meets a part of the requirements, and no two are one command.
    let parts = [
        "rm -r a; ",
        "rm b; ",
        "A=1 rm a; ",
        "A=1 rm -r a; ",
        "true b < f; ",
    ];
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let mut text: String = (0..300).map(|_| random.pick(&parts)).collect();
        assert!(hits(&pack, &text, &mut random).is_empty(), "seed {seed}");
        text += "A=1 rm -r b";
        assert_eq!(hits(&pack, &text, &mut random).len(), 1, "seed {seed}");
    }
}
