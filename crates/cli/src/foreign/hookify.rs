//! Rules of hookify, a plugin of Claude Code: Markdown with `event`, `pattern` or `conditions`, and `action`.
//!
//! A rule matches an event only if all its conditions hold. A rule with a condition that has no equivalent is therefore
//! left out completely: without the condition it would match too often.

use super::ForeignText;
use super::draft::{ImportedFile, RuleDraft, quoted, text};
use super::python;
use crate::foreign::front;

/// The tools of a file event.
const FILE_TOOLS: [&str; 3] = ["edit", "write", "multiedit"];

/// Returns true if the front matter names an event, or `conditions` in the plural.
pub(super) fn is_hookify_rule(body: &str) -> bool {
    let (front, _) = front::split(body);
    let has = |key: &str| front.lines().any(|line| line.starts_with(key));
    (has("event:") || has("conditions:")) && !has("condition:")
}

pub(super) fn read(from: &ForeignText<'_>, sheet: &mut ImportedFile) -> Result<(), String> {
    let (front, body) = front::split(from.text);
    if front.is_empty() {
        return Err("no front matter".to_owned());
    }
    let page = HookRule::read(front);
    let name = page.get("name").unwrap_or(stem(from.name));
    let keep = |why: &str, sheet: &mut ImportedFile| {
        sheet.keep(from.name, why, &format!("{why}\n{name}\n{}", body.trim()));
    };
    if page
        .get("enabled")
        .is_some_and(|value| value.eq_ignore_ascii_case("false"))
    {
        keep("`enabled` is false: the rule is disabled", sheet);
        return Ok(());
    }
    let event = page.get("event").unwrap_or("all");
    let Some(events) = HookEvent::by_name(event) else {
        let why = match event {
            "stop" => "event `stop`: there is no text when an agent stops".to_owned(),
            event => format!("event {}: unknown", quoted(event)),
        };
        keep(&why, sheet);
        return Ok(());
    };
    let conditions = match page.conditions() {
        Ok(conditions) => conditions,
        Err(why) => {
            keep(&why, sheet);
            return Ok(());
        }
    };
    let mut lost = page.unknown();
    if event == "all" {
        lost.push(
            "event `all`: except when an agent stops, because there is no text then".to_owned(),
        );
    }
    for &event in events {
        let parts: Result<Vec<ConvertedCondition>, String> = conditions
            .iter()
            .map(|condition| condition.part(event))
            .collect();
        let parts = match parts {
            Ok(parts) => parts,
            // Among several events, those without such a field are skipped.
            Err(_) if events.len() > 1 && conditions.iter().any(|it| !event.has(&it.field)) => {
                continue;
            }
            Err(why) => {
                keep(&why, sheet);
                continue;
            }
        };
        let mut draft = RuleDraft::new(from.name.to_owned(), name, name);
        for what in lost.drain(..) {
            sheet.report_unconverted_part(&mut draft, what);
        }
        page.action(event, &mut draft);
        page.scope(event, &mut draft);
        matched(&parts, &mut draft);
        if !body.trim().is_empty() {
            draft.set("instead", text(body.trim()));
        }
        sheet.add(draft);
    }
    Ok(())
}

/// Returns the name of a file without `hookify.` and `.local.md`.
fn stem(path: &str) -> &str {
    let file = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let file = file.strip_prefix("hookify.").unwrap_or(file);
    file.split_once('.').map_or(file, |(stem, _)| stem)
}

/// The event at which a rule is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HookEvent {
    Bash,
    File,
    Prompt,
}

impl HookEvent {
    fn by_name(name: &str) -> Option<&'static [HookEvent]> {
        match name {
            "bash" => Some(&[HookEvent::Bash]),
            "file" => Some(&[HookEvent::File]),
            "prompt" => Some(&[HookEvent::Prompt]),
            "all" => Some(&[HookEvent::Bash, HookEvent::File, HookEvent::Prompt]),
            _ => None,
        }
    }

    /// Returns the glob of the argument for a field. An empty glob selects the whole text.
    fn arg(self, field: &str) -> Option<&'static str> {
        match (self, field) {
            (HookEvent::Bash, "command" | "content") => Some("command"),
            (HookEvent::File, "file_path") => Some("file_path"),
            (HookEvent::File, "new_text" | "new_string" | "content") => {
                Some("{content,new_string,edits.*.new_string}")
            }
            (HookEvent::File, "old_text" | "old_string") => Some("{old_string,edits.*.old_string}"),
            (HookEvent::Prompt, "user_prompt" | "content") => Some(""),
            _ => None,
        }
    }

    fn has(self, field: &str) -> bool {
        self.arg(field).is_some()
    }
}

/// A condition as written in the file.
struct HookCondition {
    field: String,
    operator: String,
    pattern: String,
}

/// A converted condition.
struct ConvertedCondition {
    pattern: String,
    negated: bool,
}

impl HookCondition {
    fn part(&self, event: HookEvent) -> Result<ConvertedCondition, String> {
        let Some(arg) = event.arg(&self.field) else {
            return Err(format!(
                "a condition on {}: there is no such text",
                quoted(&self.field)
            ));
        };
        let escaped = || regex_syntax::escape(&self.pattern);
        let regex = match &*self.operator {
            "regex_match" => python::regex(&self.pattern, true)
                .map_err(|why| format!("pattern {}: {why}", quoted(&self.pattern)))?,
            "contains" | "not_contains" => escaped(),
            "equals" => format!("^{}$", escaped()),
            "starts_with" => format!("^{}", escaped()),
            "ends_with" => format!("{}$", escaped()),
            other => return Err(format!("operator {}: unknown", quoted(other))),
        };
        let arg = match arg {
            "" => String::new(),
            arg => format!(", arg = {}", text(arg)),
        };
        Ok(ConvertedCondition {
            pattern: format!("{{ regex = {}{arg} }}", text(&regex)),
            negated: self.operator == "not_contains",
        })
    }
}

/// Sets the match keys of a rule. All conditions are searched in the whole call or the whole text.
fn matched(parts: &[ConvertedCondition], draft: &mut RuleDraft) {
    let list = |negated: bool| {
        let parts = parts.iter().filter(|part| part.negated == negated);
        let patterns: Vec<&str> = parts.map(|part| part.pattern.as_str()).collect();
        (patterns.len(), format!("[{}]", patterns.join(", ")))
    };
    let (positive, patterns) = list(false);
    let (negative, excuses) = list(true);
    match positive {
        0 => draft.set("match.any", "[{ regex = '(?s:.)' }]".to_owned()),
        1 => draft.set("match.any", patterns),
        _ => draft.set("match.all", patterns),
    }
    if negative > 0 {
        draft.set("match.none", excuses);
    }
    if positive > 1 || negative > 0 {
        draft.set("match.within", "{ part = true }".to_owned());
    }
}

/// The front matter. Hookify reads it line by line and not as YAML: backslashes in quotes are literal.
struct HookRule {
    keys: Vec<(String, String)>,
    conditions: Vec<Vec<(String, String)>>,
}

impl HookRule {
    fn read(front: &str) -> HookRule {
        let mut page = HookRule {
            keys: Vec::new(),
            conditions: Vec::new(),
        };
        let mut list = String::new();
        for line in front.lines() {
            let trimmed = line.trim();
            if trimmed.is_empty() || trimmed.starts_with('#') {
                continue;
            }
            let is_item = trimmed.starts_with('-');
            if !line.starts_with([' ', '\t', '-']) {
                list.clear();
                if let Some((key, value)) = pair(trimmed) {
                    match value.is_empty() {
                        true => list.clone_from(&key),
                        false => page.keys.push((key, value)),
                    }
                }
                continue;
            }
            if list != "conditions" {
                page.keys.push((list.clone(), trimmed.to_owned()));
                continue;
            }
            if is_item {
                page.conditions.push(Vec::new());
            }
            let item = trimmed.trim_start_matches('-').trim();
            let Some(condition) = page.conditions.last_mut() else {
                continue;
            };
            // `- field: command, operator: contains, pattern: x` on one line, if all parts are keys.
            let keys = ["field:", "operator:", "pattern:"];
            let whole = item.split(',').map(str::trim);
            let is_inline = whole.clone().count() > 1
                && whole
                    .clone()
                    .all(|part| keys.iter().any(|key| part.starts_with(key)));
            match is_inline {
                true => condition.extend(whole.filter_map(pair)),
                false => condition.extend(pair(item)),
            }
        }
        page
    }

    fn get(&self, key: &str) -> Option<&str> {
        let mut known = self.keys.iter().rev();
        let (_, value) = known.find(|(known, _)| known == key)?;
        Some(value)
    }

    fn conditions(&self) -> Result<Vec<HookCondition>, String> {
        let all = self.conditions.iter().map(|keys| {
            let get = |key: &str| {
                let found = keys.iter().find(|(known, _)| known == key);
                found.map(|(_, value)| value.clone())
            };
            let odd = keys
                .iter()
                .find(|(key, _)| !["field", "operator", "pattern"].contains(&&**key));
            if let Some((key, _)) = odd {
                return Err(format!("a condition with {}", quoted(key)));
            }
            let (Some(field), Some(pattern)) = (get("field"), get("pattern")) else {
                return Err("a condition without a field or a pattern".to_owned());
            };
            let operator = get("operator").unwrap_or_else(|| "regex_match".to_owned());
            Ok(HookCondition {
                field,
                operator,
                pattern,
            })
        });
        let all: Vec<HookCondition> = all.collect::<Result<_, _>>()?;
        if !all.is_empty() {
            return Ok(all);
        }
        match self.get("pattern") {
            Some(pattern) => Ok(vec![HookCondition {
                field: "content".to_owned(),
                operator: "regex_match".to_owned(),
                pattern: pattern.to_owned(),
            }]),
            None => Err("neither a pattern nor conditions".to_owned()),
        }
    }

    /// Sets the action. A blocked call must not run, so its rule cuts the reply and does not give up after some retries.
    fn action(&self, event: HookEvent, draft: &mut RuleDraft) {
        match (self.get("action"), event) {
            (Some("block"), HookEvent::Bash | HookEvent::File) => {
                draft.set("severity", text("critical"));
                draft.set("action", text("retry"));
            }
            (Some("block"), HookEvent::Prompt) => {
                draft.notes.push(
                    "As in hookify, a prompt is not blocked: the user is notified.".to_owned(),
                );
                draft.set("action", text("warn"));
            }
            _ => draft.set("action", text("warn")),
        }
    }

    fn scope(&self, event: HookEvent, draft: &mut RuleDraft) {
        let matcher = self.get("tool_matcher").filter(|matcher| *matcher != "*");
        let named = matcher.map(|matcher| matcher.split('|').map(str::to_lowercase).collect());
        let (on, tools): (_, Vec<String>) = match event {
            HookEvent::Bash => (
                "tool-input",
                named.unwrap_or_else(|| vec!["bash".to_owned()]),
            ),
            HookEvent::File => (
                "tool-input",
                named.unwrap_or_else(|| FILE_TOOLS.map(str::to_owned).to_vec()),
            ),
            HookEvent::Prompt => ("user-input", Vec::new()),
        };
        draft.set_texts("on", &[on.to_owned()]);
        draft.set_texts("tools", &tools);
    }

    /// Returns the keys that have an effect there and no equivalent here.
    fn unknown(&self) -> Vec<String> {
        const KNOWN: [&str; 7] = [
            "name",
            "enabled",
            "event",
            "pattern",
            "action",
            "tool_matcher",
            "description",
        ];
        let told = self.keys.iter().filter_map(|(key, value)| {
            let is_odd = match key.as_str() {
                "action" => !["warn", "block"].contains(&value.as_str()),
                "pattern" => !self.conditions.is_empty(),
                key => !KNOWN.contains(&key),
            };
            is_odd.then(|| format!("{key} = {}", quoted(value)))
        });
        told.collect()
    }
}

/// Splits `key: value` and removes quotes around the value.
fn pair(line: &str) -> Option<(String, String)> {
    let (key, value) = line.split_once(':')?;
    let value = value.trim().trim_matches('"').trim_matches('\'');
    Some((key.trim().to_owned(), value.to_owned()))
}
