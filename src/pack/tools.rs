//! Names of tools and arguments of common harnesses, and warnings about names that nearly equal one of them.
//!
//! The names are data, in `tools.toml`, each with its source. An unknown name is not an error: harnesses have tools of
//! their own, which a pack names in `[pack] tools`.

use toml::de::{DeTable, DeValue};

use super::check::fault::Fault;
use super::diagnostic::code;
use super::did_you_mean;
use super::escape::quote;
use crate::rule::{Channel, Rule};
use ttsr_views::path::{ToolScope, split_exclusion};

const KNOWN: &str = include_str!("tools.toml");

/// The shortest name that is compared with others, in characters: many shorter names are near each other.
const MIN_CHARS: usize = 3;

/// The known names of tools and of their arguments.
#[derive(Debug)]
pub(super) struct KnownTools {
    tools: Vec<String>,
    args: Vec<String>,
    /// Globs on tools that the loaded packs name as their own.
    own: Vec<String>,
}

impl KnownTools {
    /// Returns the tools of known harnesses and `own`, the tools that packs name as their own.
    pub(super) fn new<'o>(own: impl IntoIterator<Item = &'o String>) -> KnownTools {
        let (mut tools, mut args) = (Vec::new(), Vec::new());
        let root = DeTable::parse(KNOWN).expect("a test reads the table of tools");
        let harnesses = root.get_ref().get("harness").map(|list| list.get_ref());
        for harness in harnesses.and_then(DeValue::as_array).into_iter().flatten() {
            for (key, names) in [("tools", &mut tools), ("args", &mut args)] {
                let list = harness.get_ref().get(key).map(|list| list.get_ref());
                let list = list.and_then(DeValue::as_array).into_iter().flatten();
                names.extend(list.filter_map(|name| Some(name.get_ref().as_str()?.to_owned())));
            }
        }
        // Names of tools are compared without case; the lower-case name is shown.
        tools.sort_by_key(|name: &String| {
            (name.to_ascii_lowercase(), std::cmp::Reverse(name.clone()))
        });
        tools.dedup_by_key(|name| name.to_ascii_lowercase());
        args.sort();
        args.dedup();
        KnownTools {
            tools,
            args,
            own: own.into_iter().cloned().collect(),
        }
    }

    /// Returns the warnings about the scopes of a rule, each with the key and the entry that it is about.
    pub(super) fn warnings<'r>(&self, rule: &'r Rule) -> Vec<(&'static str, &'r str, Fault)> {
        let mut found = Vec::new();
        let tools = self.misspelled_tools(&rule.tools);
        if tools.is_empty() {
            let unknown = self.unknown_scope(rule).into_iter();
            found.extend(unknown.map(|(entry, fault)| ("tools", entry, fault)));
        }
        let tools = tools.into_iter();
        found.extend(tools.map(|(entry, fault)| ("tools", entry, fault)));
        if let Some(consult) = &rule.consult {
            let tools = self.misspelled_tools(&consult.tools).into_iter();
            found.extend(tools.map(|(entry, fault)| ("consult.tools", entry, fault)));
        }
        let of_own = |tool: &String| self.is_own(split_exclusion(tool).1);
        if !rule.tools.iter().any(of_own) {
            let patterns = rule.condition.patterns();
            let args = patterns.filter_map(|pattern| Some(("match", pattern.arg.as_ref()?)));
            let args = rule.args.iter().map(|arg| ("args", arg)).chain(args);
            found
                .extend(args.filter_map(|(key, arg)| Some((key, &**arg, self.misspelt_arg(arg)?))));
        }
        found
    }

    /// Returns the warnings about globs on tools that nearly equal the name of a known one, each with the glob.
    pub(super) fn misspelled_tools<'g>(&self, globs: &'g [String]) -> Vec<(&'g str, Fault)> {
        let names = self.tools.iter().map(String::as_str);
        let own = self.own.iter().map(String::as_str);
        let names: Vec<&str> = names.chain(own).collect();
        let mut found = Vec::new();
        for entry in globs {
            let (_, glob) = split_exclusion(entry);
            if self.is_known(glob) || is_pattern(glob) || glob.chars().count() < MIN_CHARS {
                continue;
            }
            if let Some(near) = did_you_mean::nearest(glob, &names) {
                let message = format!("no known harness has a tool {}", quote(glob));
                let help = format!(
                    "did you mean {}? If not, add your tool to `[pack] tools`",
                    quote(near)
                );
                let fault = Fault::new(&code::UNKNOWN_TOOL, message).with_help(help);
                found.push((&**entry, fault));
            }
        }
        found
    }

    /// Returns the warning about a rule on unknown tools only: its examples prove nothing about real calls.
    fn unknown_scope<'r>(&self, rule: &'r Rule) -> Option<(&'r str, Fault)> {
        let included = rule.tools.iter().filter(|entry| !entry.starts_with('!'));
        let included: Vec<&String> = included.collect();
        if included.is_empty() || included.iter().any(|glob| self.is_known(glob)) {
            return None;
        }
        let examples = match rule.on.contains(&Channel::ToolInput) {
            true => ": its examples are run only in calls of a tool with that name",
            false => "",
        };
        let message = format!(
            "no known harness has a tool that {} matches{examples}",
            quote(included[0])
        );
        let help = "add your tools to `[pack] tools`, or write the name that the harness uses";
        let fault = Fault::new(&code::UNKNOWN_TOOL, message).with_help(help);
        Some((included[0], fault))
    }

    /// Returns the warning about an argument path with a name that nearly equals that of a known argument.
    fn misspelt_arg(&self, path: &str) -> Option<Fault> {
        let names: Vec<&str> = self.args.iter().map(String::as_str).collect();
        let is_name = |segment: &&str| {
            let is_number = segment.bytes().all(|byte| byte.is_ascii_digit());
            !is_pattern(segment) && !segment.starts_with('$') && !is_number
        };
        let mut segments = path.split('.').filter(is_name);
        let unknown = segments.find(|segment| !names.contains(segment))?;
        if unknown.chars().count() < MIN_CHARS {
            return None;
        }
        let near = did_you_mean::nearest(unknown, &names)?;
        let message = format!("no known tool has an argument {}", quote(unknown));
        let help = format!(
            "did you mean {}? If not, add the tool that has this argument to `tools` and to `[pack] tools`",
            quote(near)
        );
        Some(Fault::new(&code::UNKNOWN_ARGUMENT, message).with_help(help))
    }

    /// Returns true if the glob matches a tool of a known harness, of a Model Context Protocol server, or of a loaded pack.
    fn is_known(&self, glob: &str) -> bool {
        let is_mcp = glob
            .get(..3)
            .is_some_and(|start| start.eq_ignore_ascii_case("mcp"));
        is_mcp || self.is_own(glob) || matches_any(glob, &self.tools)
    }

    fn is_own(&self, glob: &str) -> bool {
        matches_any(glob, &self.own) || self.own.iter().any(|own| matches(own, glob))
    }
}

fn matches_any(glob: &str, names: &[String]) -> bool {
    if !is_pattern(glob) {
        return names.iter().any(|name| name.eq_ignore_ascii_case(glob));
    }
    let scope = ToolScope::new(&[glob.to_owned()]);
    scope.is_ok_and(|scope| names.iter().any(|it| scope.applies(Some(it)) == Some(true)))
}

fn matches(glob: &str, name: &str) -> bool {
    let scope = ToolScope::new(&[glob.to_owned()]);
    scope.is_ok_and(|scope| scope.applies(Some(name)) == Some(true))
}

fn is_pattern(glob: &str) -> bool {
    glob.contains(['*', '?', '[', ']', '{', '}', '\\'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pack;

    #[test]
    fn every_harness_has_a_source_and_names_that_are_names() {
        let root = DeTable::parse(KNOWN).unwrap();
        let harnesses = root.get_ref()["harness"].get_ref().as_array().unwrap();
        assert!(harnesses.len() >= 9);
        for harness in harnesses {
            let text = |key: &str| harness.get_ref()[key].get_ref().as_str().unwrap();
            assert!(!text("name").is_empty() && text("source").len() > 20);
            for key in ["tools", "args"] {
                let names = harness.get_ref()[key].get_ref().as_array().unwrap();
                assert!(!names.is_empty());
                for name in names.iter().map(|name| name.get_ref().as_str().unwrap()) {
                    let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
                    assert!(name.bytes().all(is_name), "{name}");
                }
            }
        }
    }

    /// Swapped, doubled, missing and added letters: no misspelt name of a known tool passes without a warning.
    #[test]
    fn a_typing_error_in_any_known_name_is_told() {
        let known = KnownTools::new([]);
        let (mut told, mut silent) = (0, Vec::new());
        for tool in known.tools.iter().filter(|name| name.len() > 3) {
            for typed in typing_errors(tool) {
                if known.is_known(&typed) {
                    continue;
                }
                match known.misspelled_tools(std::slice::from_ref(&typed)).len() {
                    0 => silent.push(typed),
                    _ => told += 1,
                }
            }
        }
        for arg in known.args.iter().filter(|name| name.len() > 3) {
            for typed in typing_errors(arg) {
                if known.args.contains(&typed) {
                    continue;
                }
                match known.misspelt_arg(&typed) {
                    None => silent.push(typed),
                    Some(_) => told += 1,
                }
            }
        }
        assert_eq!(silent, [""; 0]);
        assert!(told > 1000, "{told}");
    }

    fn typing_errors(name: &str) -> Vec<String> {
        let middle = name.len() / 2;
        let (head, tail) = name.split_at(middle);
        let mut swapped: Vec<char> = name.chars().collect();
        swapped.swap(middle - 1, middle);
        vec![
            swapped.into_iter().collect(),
            format!("{head}{}", &tail[1..]),
            format!("{head}{}{tail}", &tail[..1]),
            format!("{name}s"),
        ]
    }

    fn warnings(head: &str, rule: &str) -> Vec<String> {
        let text = format!(
            "schema = 1\n[pack]\nname = 'p'\n{head}\n[rule.r]\ndescription = 'd'\non = ['tool-input']\n{rule}\n\
             match.any = [{{ literal = 'x' }}]\nexamples.match = ['x']\nexamples.no-match = ['y']\n"
        );
        let pack = Pack::builder().toml("p", text).lints().build();
        let pack = pack.unwrap_or_else(|error| panic!("{error}"));
        let shown = pack.warnings().iter().map(|it| {
            let help = it.help().unwrap_or_default();
            format!("{} {}: {} ({help})", it.line(), it.code(), it.message())
        });
        shown.collect()
    }

    #[test]
    fn a_name_that_is_nearly_a_known_one_is_told_unless_the_pack_has_it() {
        for (head, rule, codes) in [
            ("", "tools = ['bsah']", &["unknown-tool"][..]),
            ("", "tools = ['!bsah']", &["unknown-tool"]),
            ("", "tools = ['bash', 'raed']", &["unknown-tool"]),
            ("", "args = ['comand']", &["unknown-argument"]),
            ("", "args = ['edits.*.newTxet']", &["unknown-argument"]),
            ("", "tools = ['my_custom_tool']", &["unknown-tool"]),
            ("", "tools = ['my_custom_tool', 'bash']", &[]),
            (
                "",
                "tools = ['Bash', 'mcp__github__create_isue', '*shell*']",
                &[],
            ),
            ("", "tools = ['no_such_*']", &["unknown-tool"]),
            ("", "tools = ['!no_such_tool']", &[]),
            (
                "",
                "args = ['command.*', 'edits.*.new_*', '$raw', 'a.0']",
                &[],
            ),
            (
                "tools = ['bsah']",
                "tools = ['bsah']\nargs = ['comand']",
                &[],
            ),
            (
                "tools = ['acme_*']",
                "tools = ['acme_deploy']\nargs = ['comand']",
                &[],
            ),
            (
                "tools = ['@own']\n[lists]\nown = ['bsah']",
                "tools = ['bsah']",
                &[],
            ),
        ] {
            let told = warnings(head, rule);
            let found = told.iter().map(|it| it.split([' ', ':']).nth(1).unwrap());
            assert_eq!(found.collect::<Vec<_>>(), codes, "{rule}: {told:?}");
        }
        let told = warnings("", "tools = ['bsah']");
        assert!(
            told[0].starts_with("8 ") && told[0].contains("did you mean `bash`"),
            "{told:?}"
        );
        let told = warnings("", "tools = ['my_custom_tool']");
        assert!(told[0].contains("its examples are run only in calls of a tool with that name"));
        let consult = "action = 'consult'\nconsult = { prompt = 'p', tools = ['grpe'] }";
        assert!(warnings("", consult)[0].contains("did you mean `grep`"));
        let allow = "[[allow]]\nrules = ['p/r']\ntools = ['bsah']\nreason = 'r'\n";
        assert!(warnings(allow, "")[0].contains("did you mean `bash`"));
    }
}
