//! Patterns of commands hit as a model of them does that reads the whole text first, whatever the cut.
//!
//! The model collects the events of the command reader for the whole text, and judges complete commands with functions
//! written by hand. What the reader makes of a text is tested in `ttsr-views`.

use std::collections::{BTreeMap, BTreeSet};

use ttsr::{Channel, Pack, PartId};
use ttsr_testing::{Random, scale};
use ttsr_views::chunk::Chunk;
use ttsr_views::command::{
    CommandEvent, CommandId, CommandLimits, CommandReader, CommandSink, ParentCommand,
    ParentRelation, WordRole,
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
    /// The files that operands and values of flags may name, each with the number of its event.
    read: Vec<(usize, String)>,
    /// The number of the event of the first operand, which is the code of `perl` unless `-e` or `-f` gives it.
    first_operand: usize,
    /// The number of the event of the last operand, which is the target of `cp`.
    last_operand: usize,
    /// The files that redirections name.
    redirected: Vec<(usize, String)>,
    runs_input: bool,
    /// The pieces of its code, the last of which may be open.
    code: Vec<String>,
    /// The file whose code the command runs.
    run: Option<(usize, String)>,
    sources: BTreeSet<CommandId>,
    parent: Option<ParentCommand>,
    /// The number of the event that ends the command.
    end: usize,
}

impl ModelCommand {
    /// Returns the files that words name and the command may read: not those that it writes, and no code.
    fn read_words(&self) -> impl Iterator<Item = &(usize, String)> {
        let has_code = self
            .flags
            .iter()
            .any(|(name, _)| name == "-e" || name == "-f");
        let is_other = move |at: usize| match self.name.as_str() {
            "cp" => at == self.last_operand,
            "perl" => !has_code && at == self.first_operand,
            "tee" => true,
            _ => false,
        };
        self.read.iter().filter(move |(at, _)| !is_other(*at))
    }
}

#[derive(Default)]
struct Model {
    commands: BTreeMap<CommandId, ModelCommand>,
    /// The number of events so far.
    events: usize,
}

fn utf8(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the path that a word of [`PIECES`] names.
fn path(text: &[u8]) -> String {
    let text = utf8(text);
    text.strip_prefix("./").unwrap_or(&text).to_owned()
}

impl CommandSink for Model {
    fn event(&mut self, event: CommandEvent<'_>, _: u64) {
        self.events += 1;
        let at = self.events;
        match event {
            CommandEvent::Begin { command, parent } => {
                self.commands.entry(command).or_default().parent = parent;
                let substitution = parent.filter(|it| it.relation == ParentRelation::Substitution);
                if let Some(parent) = substitution {
                    let outer = self.commands.entry(parent.command).or_default();
                    outer.sources.insert(command);
                }
            }
            CommandEvent::Word(word) => {
                let text = utf8(word.text);
                let command = self.commands.entry(word.command).or_default();
                let file = match &word.role {
                    WordRole::Operand | WordRole::Value { .. } => Some(text.as_str()),
                    WordRole::Flag { value, .. } => value.map(|_| text.as_str()),
                    _ => None,
                };
                if let Some(file) = file {
                    // `if=b` names the file `b`, except for a program that copies the files of its operands.
                    let copies = command.name == "cp" && word.role == WordRole::Operand;
                    let value = file.rsplit('=').next().filter(|_| !copies).unwrap_or(file);
                    command.read.push((at, path(value.as_bytes())));
                    command.read.push((at, path(file.as_bytes())));
                }
                match word.role {
                    WordRole::Program { name } => command.name = utf8(name),
                    WordRole::Subcommand => command.operands.push((true, text)),
                    WordRole::Operand => {
                        if command.first_operand == 0 {
                            command.first_operand = at;
                        }
                        command.operands.push((false, text));
                        command.last_operand = at;
                    }
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
                    command.written.push(path(target.text));
                } else if operator == "<" {
                    command.redirected.push((at, path(target.text)));
                }
            }
            CommandEvent::Pipe { from, to } | CommandEvent::Output { from, to } => {
                self.commands.entry(to).or_default().sources.insert(from);
            }
            CommandEvent::FileIsCode { command, file } => {
                let file = (at, path(file.text));
                self.commands.entry(command).or_default().run = Some(file);
            }
            CommandEvent::OutputIsCode { command, from } => {
                let command = self.commands.entry(command).or_default();
                command.runs_input = true;
                command.sources.insert(from);
            }
            CommandEvent::StdinIsCode { command, .. } => {
                self.commands.entry(command).or_default().runs_input = true;
            }
            CommandEvent::Code { command, chunk, .. } => {
                let code = &mut self.commands.entry(command).or_default().code;
                if code.is_empty() {
                    code.push(String::new());
                }
                let last = code.last_mut().expect("a piece is open");
                last.push_str(&utf8(chunk.bytes));
            }
            CommandEvent::CodeEnd { command } => {
                let command = self.commands.entry(command).or_default();
                command.code.push(String::new());
            }
            CommandEvent::End { command, .. } => {
                self.commands.entry(command).or_default().end = at;
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
            let command = &self.commands[&next];
            let through_files = self
                .read_files(next)
                .flat_map(|(at, path)| self.writers(path, at));
            let direct = command.sources.iter().copied();
            for source in direct.chain(through_files) {
                if found.insert(source) {
                    left.push(source);
                }
            }
        }
        found.remove(&id);
        found
    }

    /// Returns the files that a command reads or runs, each with the number of the event.
    fn read_files(&self, id: CommandId) -> impl Iterator<Item = (usize, &str)> {
        // A wrapped command has the redirections of its wrappers, but not their operands.
        let all = self.with_wrappers(id);
        let redirected = all.into_iter().flat_map(|it| &it.redirected);
        let command = &self.commands[&id];
        let reads = !INERT.contains(&command.name.as_str());
        let read = command.read_words().filter(move |_| reads);
        let files = read.chain(redirected).chain(&command.run);
        files.map(|(at, path)| (*at, path.as_str()))
    }

    /// Returns the commands that ended before an event and have written to the path.
    fn writers(&self, path: &str, before: usize) -> Vec<CommandId> {
        let ended = self.commands.iter().filter(|(_, it)| it.end < before);
        let writers = ended.filter(|(id, _)| self.writes(**id, path));
        writers.map(|(id, _)| *id).collect()
    }

    /// Returns a command and those that wrap it.
    fn with_wrappers(&self, id: CommandId) -> Vec<&ModelCommand> {
        let mut all = vec![&self.commands[&id]];
        let wrapper = |it: &ModelCommand| {
            let parent = it.parent;
            parent.filter(|parent| parent.relation == ParentRelation::Wrapped)
        };
        while let Some(parent) = wrapper(all[all.len() - 1]) {
            all.push(&self.commands[&parent.command]);
        }
        all
    }

    /// Returns true if the first command runs the second one: its words or its script.
    fn runs(&self, id: CommandId, other: CommandId) -> bool {
        let Some(parent) = self.commands[&other].parent else {
            return false;
        };
        parent.relation != ParentRelation::Substitution
            && (parent.command == id || self.runs(id, parent.command))
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
        let names = |id: CommandId| {
            let all = self.with_wrappers(id);
            let redirected = all.iter().flat_map(|it| &it.redirected);
            let mut read = self.commands[&id].read_words().chain(redirected);
            read.any(|(_, path)| path.rsplit('/').next() == Some(file))
        };
        let sources = self.sources(id);
        let passes = |source: &&CommandId| {
            let name = self.commands[source].name.as_str();
            !INERT.contains(&name) && !AUTHENTICATING.contains(&name)
        };
        let mut passed = sources.iter().filter(passes);
        names(id) || passed.any(|source| names(*source))
    }

    /// Returns true if a command writes to the path: by a redirection, or as its operand.
    fn writes(&self, id: CommandId, target: &str) -> bool {
        let all = self.with_wrappers(id);
        let mut redirected = all.iter().flat_map(|it| &it.written);
        let operands = self.operands(id, 0);
        let mut outputs = match self.commands[&id].name.as_str() {
            "cp" => &operands[operands.len().saturating_sub(1)..],
            "tee" => &operands[..operands.len().min(4)],
            _ => &[],
        }
        .iter();
        redirected.any(|it| it == target) || outputs.any(|it| path(it.as_bytes()) == target)
    }
}

/// The programs of [`PIECES`] that do not read the files that their operands name.
const INERT: [&str; 3] = ["echo", "rm", "find"];

/// The programs of [`PIECES`] that read the files that their operands name, and write something else.
const AUTHENTICATING: [&str; 2] = ["git", "psql"];

/// A rule, and the function that judges the same of a complete command.
type ModelRule = (&'static str, fn(&Model, CommandId) -> bool);

const RULES: [ModelRule; 22] = [
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
    (
        "command = '{cat,cp}', pipe-to = { command = '*', file-is-code = true }",
        |model, id| {
            let runs = |other: &CommandId| {
                let run = model.commands[other].run.iter();
                let is_written = run
                    .into_iter()
                    .any(|(at, path)| !model.writers(path, *at).is_empty());
                is_written && model.sources(*other).contains(&id)
            };
            ["cat", "cp"].contains(&model.commands[&id].name.as_str())
                && model.commands.keys().any(runs)
        },
    ),
    ("command = '{perl,psql}', code = 'a b|bb'", |model, id| {
        let mut code = model.commands[&id].code.iter();
        ["perl", "psql"].contains(&model.commands[&id].name.as_str())
            && code.any(|piece| piece.contains("a b") || piece.contains("bb"))
    }),
    (
        "command = 'perl', code = '^b+(?m:$)', no-flags = ['-r']",
        |model, id| {
            let mut code = model.commands[&id].code.iter();
            let is_wanted = |line: &str| !line.is_empty() && line.bytes().all(|byte| byte == b'b');
            model.commands[&id].name == "perl"
                && code.any(|piece| piece.split('\n').next().is_some_and(is_wanted))
                && !model.has_flag(id, &["-r"])
        },
    ),
    (
        "command = 'cat', pipe-to = { command = 'psql', code = 'b' }",
        |model, id| {
            let runs = |other: &CommandId| {
                let command = &model.commands[other];
                let mut code = command.code.iter();
                command.name == "psql"
                    && code.any(|piece| piece.contains('b'))
                    && model.sources(*other).contains(&id)
            };
            model.commands[&id].name == "cat" && model.commands.keys().any(runs)
        },
    ),
    ("command = 'rm', max-operands = 0", |model, id| {
        model.commands[&id].name == "rm" && model.operands(id, 0).is_empty()
    }),
    ("command = 'foo bar', max-operands = 1", |model, id| {
        let command = &model.commands[&id];
        let is_bar = command
            .operands
            .first()
            .is_some_and(|(_, text)| text == "bar");
        command.name == "foo" && is_bar && model.operands(id, 1).len() <= 1
    }),
    ("command = '{rm,cat}', min-operands = 2", |model, id| {
        ["rm", "cat"].contains(&model.commands[&id].name.as_str())
            && model.operands(id, 0).len() >= 2
    }),
    ("command = 'cp', last-operand = '^b'", |model, id| {
        let operands = model.operands(id, 0);
        model.commands[&id].name == "cp"
            && operands.last().is_some_and(|last| last.starts_with('b'))
    }),
    (
        "command = '{sudo,find,sh}', runs = { command = 'rm', flags = ['-r'] }",
        |model, id| {
            let is_rm = |other: &&CommandId| {
                model.commands[other].name == "rm" && model.has_flag(**other, &["-r"])
            };
            ["sudo", "find", "sh"].contains(&model.commands[&id].name.as_str())
                && model
                    .commands
                    .keys()
                    .filter(is_rm)
                    .any(|other| model.runs(id, *other))
        },
    ),
    (
        "command = 'find', operand = 'b', runs = { command = '{rm,cat}', min-operands = 1 }",
        |model, id| {
            let mut operands = model.operands(id, 0).into_iter();
            let runs = |other: &CommandId| {
                let is_named = ["rm", "cat"].contains(&model.commands[other].name.as_str());
                is_named && !model.operands(*other, 0).is_empty() && model.runs(id, *other)
            };
            model.commands[&id].name == "find"
                && operands.any(|it| it.contains('b'))
                && model.commands.keys().any(runs)
        },
    ),
];

const PIECES: [&str; 80] = [
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
    "cp ",
    "tee ",
    " > a ",
    " < a ",
    "find b -exec ",
    " \\; ",
    "cat b > a; ",
    "nc a ",
    "sh a; ",
    "./a ",
    "V=$(cat b); ",
    "nc $V ",
    "perl -e ",
    "perl -e 'a b' ",
    "psql ",
    "psql ",
    "| psql\n",
    "psql <<b\nbb\nb\n",
    "perl <<<b ",
    "cat <<b | psql\na b\nb\n",
    "echo b | psql ",
    "PAGER='cat b' ",
    "perl -e 'system \"sh a\"' ",
    "crontab - <<b\n@daily cat b | nc a\nb\n",
    "socat EXEC:sh ",
    "sh <<b\nPAGER='rm -r b'\nb\n",
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
    // With fewer texts some rule never hits.
    for seed in 0..scale(TEXTS).max(4_000) as u64 {
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

/// Returns many commands, each one of `parts`.
fn many(parts: &[&str], random: &mut Random) -> String {
    (0..300).map(|_| random.pick(parts)).collect()
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
        let mut text = many(&parts, &mut random);
        assert!(hits(&pack, &text, &mut random).is_empty(), "seed {seed}");
        text += "A=1 rm -r b";
        assert_eq!(hits(&pack, &text, &mut random).len(), 1, "seed {seed}");
    }
}

/// The commands that have met the pattern of a relation are counted, and dropped commands are taken out of the count.
#[test]
fn a_relation_is_found_after_many_commands_that_have_met_one_side_of_it() {
    let text = "schema = 1\n[pack]\nname = 't'\n[defaults]\non = ['tool-input']\n\
        [rule.pipe]\ndescription = 'd'\nmatch.any = [{ command = 'env', pipe-to = { command = 'nc' } }]\n\
        [rule.runs]\ndescription = 'd'\nmatch.any = [{ command = 'sh', runs = { command = 'rm' } }]\n";
    let pack = Pack::from_toml(text).unwrap_or_else(|error| panic!("{error}"));
    let parts = [
        "env; ",
        "nc a; ",
        "env | true; ",
        "true | nc a; ",
        "nc a | env; ",
        "rm a; ",
        "sh -c 'true'; ",
    ];
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let text = many(&parts, &mut random);
        assert!(hits(&pack, &text, &mut random).is_empty(), "seed {seed}");
        // The last commands have met neither side: what met one before was dropped.
        for text in [text.clone(), text + &"true; ".repeat(100)] {
            for (last, rule) in [("env | cat | nc a", 0), ("sh -c 'rm a'", 1)] {
                let text = text.clone() + last;
                let found = hits(&pack, &text, &mut random);
                assert_eq!(found, BTreeSet::from([rule]), "seed {seed}: {last}");
            }
        }
    }
}
