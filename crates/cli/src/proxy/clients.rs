//! The settings with which a client that runs behind the proxy finds it.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::CommandError;

/// The variable with which OpenCode takes a configuration.
const OPENCODE: &str = "OPENCODE_CONFIG_CONTENT";

/// The variables with the base URLs of Google's clients for Gemini, each with the name of its mount. Gemini CLI uses the
/// second one with a Google login.
pub(super) const GOOGLE: [(&str, &str); 2] = [
    ("GOOGLE_GEMINI_BASE_URL", "gemini"),
    ("CODE_ASSIST_ENDPOINT", "code-assist"),
];

/// Other variables with the base URL of an API. Clients that read them would not go through the proxy, so those that are
/// set are replaced. One that is not set stays so: it would select a provider, or a login that the user does not have.
pub(super) const OTHER_URLS: [&str; 19] = [
    // LiteLLM, and so aider.
    "ANTHROPIC_API_BASE",
    "DEEPSEEK_API_BASE",
    "GEMINI_API_BASE",
    "GROQ_API_BASE",
    "LM_STUDIO_API_BASE",
    "MISTRAL_API_BASE",
    "OLLAMA_API_BASE",
    "OPENROUTER_API_BASE",
    "XAI_API_BASE",
    // Crush.
    "ANTHROPIC_API_ENDPOINT",
    "GEMINI_API_ENDPOINT",
    "OPENAI_API_ENDPOINT",
    // GitHub Copilot CLI with a provider of the user.
    "COPILOT_PROVIDER_BASE_URL",
    // SDKs and clients of one provider.
    "DEEPSEEK_BASE_URL",
    "GEMINI_BASE_URL",
    "GROQ_BASE_URL",
    "MISTRAL_BASE_URL",
    "OPENROUTER_BASE_URL",
    "XAI_BASE_URL",
];

/// The variables with which Claude Code takes a service that the proxy cannot judge.
pub(super) const ELSEWHERE: [&str; 3] = [
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
];

/// Returns true if the value of such a variable does not switch it off.
pub(super) fn is_on(value: &str) -> bool {
    let value = value.trim().to_ascii_lowercase();
    !matches!(&*value, "0" | "false" | "no" | "off")
}

/// Returns the name of the mount for the URL of a variable.
pub(super) fn mount_name(variable: &str) -> String {
    variable.to_ascii_lowercase().replace('_', "-")
}

/// Returns the address below the proxy at `base` for the URL that a variable has. Clients append paths to it, some of them
/// without a slash.
pub(super) fn proxied_url(base: &str, variable: &str, url: &str) -> String {
    let slash = if url.ends_with('/') { "/" } else { "" };
    format!("{base}/{}{slash}", mount_name(variable))
}

/// The variables with the hosts that a client reaches without a proxy.
pub(super) const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// The names of this machine.
const LOOPBACK: &str = "127.0.0.1,localhost,::1";

/// Returns the command with the settings of the client: `base` is the URL of the proxy, and `openai` the path of OpenAI's
/// API below it.
pub(super) fn command_of(
    program: &OsStr,
    arguments: &[std::ffi::OsString],
    base: &str,
    openai: &str,
) -> Result<Command, CommandError> {
    let mut command = Command::new(program);
    for (variable, mount) in GOOGLE {
        command.env(variable, format!("{base}/{mount}"));
    }
    // The proxy that the user has for other servers cannot reach an address of this machine.
    let known = NO_PROXY.map(|name| std::env::var(name).ok());
    for (name, hosts) in NO_PROXY.iter().zip(hosts_without_proxy(known)) {
        command.env(name, hosts);
    }
    let name = Path::new(program).file_stem().and_then(OsStr::to_str);
    match name {
        Some("codex") => {
            let key = std::env::var_os("OPENAI_API_KEY");
            let has_key = key.is_some_and(|key| !key.is_empty());
            for setting in codex_settings(&format!("{base}/openai{openai}"), has_key) {
                command.arg("-c").arg(setting);
            }
        }
        Some("opencode") => {
            let known = std::env::var(OPENCODE).ok();
            let settings = opencode_settings(known.as_deref(), base, openai);
            let because = || CommandError::Message(format!("{OPENCODE} is not a JSON object"));
            command.env(OPENCODE, settings.ok_or_else(because)?);
        }
        _ => {}
    }
    command.args(arguments);
    Ok(command)
}

/// Returns the values of both variables. Clients read one or the other, so one that is not set has the hosts of the other.
fn hosts_without_proxy(known: [Option<String>; 2]) -> [String; 2] {
    let [upper, lower] = &known;
    [
        upper.as_ref().or(lower.as_ref()),
        lower.as_ref().or(upper.as_ref()),
    ]
    .map(|known| without_proxy(known.map(String::as_str)))
}

/// Returns the hosts that a client reaches without a proxy: those that are known, and this machine.
fn without_proxy(known: Option<&str>) -> String {
    match known.map(str::trim) {
        Some("*") => "*".to_owned(),
        None | Some("") => LOOPBACK.to_owned(),
        Some(known) => format!("{known},{LOOPBACK}"),
    }
}

/// Returns the settings of Codex. With a key, they name a provider of their own; the login of ChatGPT belongs to the
/// provider that Codex has.
fn codex_settings(url: &str, has_key: bool) -> Vec<String> {
    if !has_key {
        return vec![format!("openai_base_url={}", json!(url))];
    }
    let table = [
        ("name", json!("OpenAI")),
        ("base_url", json!(url)),
        ("env_key", json!("OPENAI_API_KEY")),
        ("wire_api", json!("responses")),
    ];
    let of_table = table.map(|(key, value)| format!("model_providers.ttsr.{key}={value}"));
    let mut settings = vec!["model_provider=\"ttsr\"".to_owned()];
    settings.extend(of_table);
    settings
}

/// Returns the configuration of OpenCode: that of the environment, with the URLs of the providers. `None` if the one of the
/// environment is not a JSON object: its settings, such as permissions, would be lost.
fn opencode_settings(known: Option<&str>, base: &str, openai: &str) -> Option<String> {
    let known = known.filter(|text| !text.trim().is_empty());
    let mut settings = match known {
        Some(text) => serde_json::from_str::<Value>(text).ok()?,
        None => json!({}),
    };
    settings.as_object()?;
    for (provider, path) in [
        ("anthropic", "/anthropic/v1".to_owned()),
        ("openai", format!("/openai{openai}")),
        ("google", "/gemini/v1beta".to_owned()),
    ] {
        let mut place = &mut settings;
        for key in ["provider", provider, "options"] {
            if !place[key].is_object() {
                place[key] = json!({});
            }
            place = &mut place[key];
        }
        place["baseURL"] = json!(format!("{base}{path}"));
    }
    Some(settings.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codex_takes_a_provider_or_a_url() {
        let url = "http://127.0.0.1:1/openai/v1";
        assert_eq!(
            codex_settings(url, false),
            ["openai_base_url=\"http://127.0.0.1:1/openai/v1\""]
        );
        let settings = codex_settings(url, true);
        assert_eq!(settings[0], "model_provider=\"ttsr\"");
        let whole = settings.join("\n");
        let read: toml::Table = whole.parse().unwrap();
        let provider = &read["model_providers"]["ttsr"];
        assert_eq!(provider["base_url"].as_str(), Some(url));
        assert_eq!(provider["wire_api"].as_str(), Some("responses"));
    }

    #[test]
    fn opencode_keeps_its_other_settings() {
        let known = r#"{"model": "x/y", "provider": {"openai": {"options": {"timeout": 3}}}}"#;
        for damaged in ["no json", "[]", "{/* a comment */}", "{"] {
            let settings = opencode_settings(Some(damaged), "http://127.0.0.1:1", "/v1");
            assert_eq!(settings, None, "{damaged}");
        }
        for known in [Some(known), Some(""), None] {
            let settings = opencode_settings(known, "http://127.0.0.1:1", "/v1");
            let settings: Value = serde_json::from_str(&settings.unwrap()).unwrap();
            let providers = &settings["provider"];
            assert_eq!(
                providers["openai"]["options"]["baseURL"],
                "http://127.0.0.1:1/openai/v1"
            );
            assert_eq!(
                providers["anthropic"]["options"]["baseURL"],
                "http://127.0.0.1:1/anthropic/v1"
            );
            let is_known = known.is_some_and(|known| known.contains("x/y"));
            assert_eq!(settings["model"] == "x/y", is_known);
            assert_eq!(providers["openai"]["options"]["timeout"] == 3, is_known);
        }
    }

    #[test]
    fn this_machine_is_added_to_the_hosts_without_a_proxy() {
        assert_eq!(without_proxy(None), LOOPBACK);
        assert_eq!(without_proxy(Some("*")), "*");
        assert_eq!(
            without_proxy(Some("a.example")),
            format!("a.example,{LOOPBACK}")
        );
        let given = |upper: Option<&str>, lower: Option<&str>| {
            hosts_without_proxy([upper, lower].map(|it| it.map(str::to_owned)))
        };
        let with = |hosts: &str| format!("{hosts},{LOOPBACK}");
        assert_eq!(given(Some("a"), Some("b")), [with("a"), with("b")]);
        assert_eq!(given(None, Some("b")), [with("b"), with("b")]);
        assert_eq!(given(Some("a"), None), [with("a"), with("a")]);
    }
}
