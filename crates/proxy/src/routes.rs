//! The path of a request, and the server and the API that it selects.

use hyper::{Method, Uri};

use crate::config::{ProxyConfig, UpstreamUrl};
use crate::url_path::{bare, segments, unescaped};

/// An API whose replies have content of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModelApi {
    AnthropicMessages,
    OpenAiChat,
    OpenAiResponses,
    OpenAiCompletions,
    Gemini,
    /// Google's Code Assist, which Gemini CLI uses with a Google login: requests and replies of Gemini in a wrapper.
    CodeAssist,
    OllamaChat,
    OllamaGenerate,
    /// Another API of models, such as Anthropic's `complete`: its replies cannot be judged.
    Unjudged,
}

impl ModelApi {
    /// Returns the name in the log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ModelApi::AnthropicMessages => "anthropic-messages",
            ModelApi::OpenAiChat => "openai-chat",
            ModelApi::OpenAiResponses => "openai-responses",
            ModelApi::OpenAiCompletions => "openai-completions",
            ModelApi::Gemini => "gemini",
            ModelApi::CodeAssist => "code-assist",
            ModelApi::OllamaChat => "ollama-chat",
            ModelApi::OllamaGenerate => "ollama-generate",
            ModelApi::Unjudged => "unjudged",
        }
    }

    /// Returns the API without a wrapper around its requests and replies.
    pub(crate) fn unwrapped(self) -> ModelApi {
        match self {
            ModelApi::CodeAssist => ModelApi::Gemini,
            api => api,
        }
    }
}

/// The destination of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route<'c> {
    pub(crate) upstream: &'c UpstreamUrl,
    /// The path and the query to append to the URL of the server.
    pub(crate) rest: &'c str,
    /// `None` if the reply has no content of a model, such as a list of models.
    pub(crate) api: Option<ModelApi>,
    /// True if the request asks for a reply with its body. Otherwise a reply is fetched that the server has.
    pub(crate) has_prompt: bool,
    /// True if the path is that of another known API, whose requests may look like those to a model.
    pub(crate) is_other_api: bool,
}

/// Returns the route of a request, or `None` if no server is configured for its path.
pub(crate) fn route<'c>(
    config: &'c ProxyConfig,
    method: &Method,
    uri: &'c Uri,
    is_anthropic: bool,
) -> Option<Route<'c>> {
    let whole = uri.path_and_query().map_or("/", |path| path.as_str());
    let mounts = config.mounts.iter().filter_map(|mount| {
        let rest = whole.strip_prefix(&*mount.prefix)?;
        rest.is_empty()
            .then_some("/")
            .or_else(|| rest.starts_with(['/', '?']).then_some(rest))
            .map(|rest| (mount, rest))
    });
    let mounted = mounts.max_by_key(|(mount, _)| mount.prefix.len());
    let (upstream, rest) = match (mounted, &config.fallback) {
        (Some((mount, rest)), _) => (&mount.upstream, rest),
        (None, Some(fallback)) => (fallback, whole),
        (None, None) => {
            let name = match api(method, uri.path()) {
                _ if is_code_assist(uri.path()) => "/code-assist",
                Some(ModelApi::AnthropicMessages) => "/anthropic",
                Some(ModelApi::Gemini) => "/gemini",
                Some(ModelApi::OllamaChat | ModelApi::OllamaGenerate) => "/ollama",
                Some(_) => "/openai",
                None if is_anthropic => "/anthropic",
                None if uri.path().starts_with("/v1/") => "/openai",
                None => return None,
            };
            let mount = config.mounts.iter().find(|mount| mount.prefix == name)?;
            (&mount.upstream, whole)
        }
    };
    let path = rest.split('?').next().unwrap_or(rest);
    // The base path of a server may have the first segments of an API, or stand for them: `…/anthropic` for `…/v1`.
    let whole = upstream.joined(path);
    let is_embedding = *method == Method::POST && is_vertex_embedding(&whole);
    let (path, api) = match api(method, &whole) {
        Some(api) => (&*whole, Some(api)),
        None => (path, api(method, path)),
    };
    Some(Route {
        upstream,
        rest,
        api: api.filter(|_| !is_embedding),
        has_prompt: *method == Method::POST && posted(&plain_segments(&plain_path(path))).is_some(),
        is_other_api: is_embedding || is_other_api(&whole),
    })
}

/// The beginnings of the names of Google's models on Vertex AI that return embeddings.
const VERTEX_EMBEDDINGS: [&str; 5] = [
    "gemini-embedding-",
    "multimodalembedding",
    "text-embedding-",
    "text-multilingual-embedding-",
    "textembedding-gecko",
];

/// Returns true if the path is that of an embedding model on Vertex AI, which has the method `predict` like models that
/// write text: `…/publishers/google/models/MODEL:predict`. The path alone names the model, and names of this publisher are
/// Google's own, so that no other model answers. Paths that a server could read in another way are not among them, and
/// neither are endpoints with a number, behind which any model may be.
fn is_vertex_embedding(path: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._@:".contains(&byte);
    let is_name = |segment: &str| !segment.is_empty() && segment.bytes().all(is_plain);
    let Some(rest) = path.strip_prefix('/') else {
        return false;
    };
    let segments: Vec<&str> = rest.split('/').collect();
    let [base @ .., "publishers", "google", "models", last] = &segments[..] else {
        return false;
    };
    let Some(model) = last.strip_suffix(":predict") else {
        return false;
    };
    segments.iter().all(|segment| is_name(segment))
        && !base.iter().any(|segment| segment.contains(':'))
        && !model.contains(':')
        && VERTEX_EMBEDDINGS
            .iter()
            .any(|known| model.starts_with(known))
}

/// Returns the API of a path: by its last segments, because servers have different base paths.
fn api(method: &Method, path: &str) -> Option<ModelApi> {
    let plain = plain_path(path);
    let segments = plain_segments(&plain);
    match *method {
        Method::POST => posted(&segments).or_else(|| changed(&segments)),
        Method::GET => fetched(&segments),
        Method::HEAD | Method::OPTIONS | Method::DELETE => None,
        // A server may take another method, such as `post`, for POST.
        _ => posted(&segments).map(|_| ModelApi::Unjudged),
    }
}

/// Returns the path as its segments are compared: without escapes and case, because a server may not tell them apart.
fn plain_path(path: &str) -> String {
    unescaped(path).to_ascii_lowercase()
}

/// Returns the segments of a plain path. Doubled slashes and parameters of segments do not count.
fn plain_segments(plain: &str) -> Vec<&str> {
    let segments = segments(plain).map(bare);
    segments.filter(|segment| !segment.is_empty()).collect()
}

/// Returns the API to which a request is posted.
fn posted(segments: &[&str]) -> Option<ModelApi> {
    Some(match segments {
        [.., "threads" | "completions", _, "messages"] => ModelApi::Unjudged,
        [.., "messages"] => ModelApi::AnthropicMessages,
        [.., "chat", "completions"] => ModelApi::OpenAiChat,
        [.., "responses"] | [.., "responses", "compact"] => ModelApi::OpenAiResponses,
        [.., "completions"] => ModelApi::OpenAiCompletions,
        [.., "api", "chat"] => ModelApi::OllamaChat,
        [.., "api", "generate"] => ModelApi::OllamaGenerate,
        // `POST …/responses/input_tokens` returns no reply.
        [
            ..,
            "chat" | "complete" | "completion" | "generate" | "generate_stream" | "infill",
        ]
        | [
            ..,
            "batches" | "interactions" | "predict" | "predictions" | "summarize",
        ]
        | [
            ..,
            "async-invoke" | "converse" | "converse-stream" | "invoke",
        ]
        | [
            ..,
            "invoke-with-bidirectional-stream" | "invoke-with-response-stream",
        ]
        | [.., "retrieveandgenerate" | "retrieveandgeneratestream"]
        | [.., "conversations", _, "items"]
        // Agents that the provider runs.
        | [.., "sessions", _, "events"]
        | [.., "threads", "runs"]
        | [.., "threads", _, "runs"]
        | [.., "threads", _, "runs", _, "submit_tool_outputs"] => ModelApi::Unjudged,
        _ if segments.contains(&"realtime") => ModelApi::Unjudged,
        [before @ .., last] => match last.rsplit_once(':')? {
            (name, "generatecontent" | "streamgeneratecontent") => {
                match names_version(before, name) {
                    true => ModelApi::CodeAssist,
                    false => ModelApi::Gemini,
                }
            }
            (_, "answer" | "assist" | "converse" | "query") => ModelApi::Unjudged,
            (_, "streamanswer" | "streamassist" | "streamquery") => ModelApi::Unjudged,
            (_, method) if method.ends_with("predict") => ModelApi::Unjudged,
            (_, method) if method.contains("generate") => ModelApi::Unjudged,
            _ => return None,
        },
        [] => return None,
    })
}

/// Returns true if the name before a method of Google is that of a version of the API, such as `v1internal`, as in Code
/// Assist. In Gemini it is that of a model, in a list of models.
fn names_version(before: &[&str], name: &str) -> bool {
    let is_in_list = before.last().is_some_and(|list| list.ends_with("models"));
    let digits = name.strip_prefix('v').unwrap_or_default();
    !is_in_list && digits.starts_with(|first: char| first.is_ascii_digit())
}

/// Returns true if a path without a mount is that of Code Assist, such as `/v1internal:loadCodeAssist`.
fn is_code_assist(path: &str) -> bool {
    let plain = plain_path(path);
    let first = plain_segments(&plain).first().copied();
    first.is_some_and(|first| first.split(':').next() == Some("v1internal"))
}

/// Returns true if requests to a path have no reply of a model in text, though they may look like requests to a model.
fn is_other_api(path: &str) -> bool {
    let plain = plain_path(path);
    match &plain_segments(&plain)[..] {
        [
            ..,
            "count_tokens" | "input_tokens" | "tokenize" | "detokenize",
        ]
        | [
            ..,
            "embed" | "embedding" | "embeddings" | "moderations" | "rerank",
        ]
        | [.., "files" | "uploads"]
        | [.., "files", _]
        | [.., "uploads", _, _]
        | [.., "audio" | "images" | "videos", _]
        | [.., "videos"]
        | [.., "api", "copy" | "create" | "pull" | "push" | "show"] => true,
        [.., last] => last.rsplit_once(':').is_some_and(|(_, method)| {
            method.starts_with("count")
                || method == "computetokens"
                || method.starts_with("embed")
                || method.starts_with("batchembed")
        }),
        [] => false,
    }
}

/// Returns the API of a stored reply that a request without a prompt changes: one that runs in the background is cancelled,
/// or metadata are set. The server answers with the reply.
fn changed(segments: &[&str]) -> Option<ModelApi> {
    match segments {
        [.., "responses", _, "cancel"] => Some(ModelApi::OpenAiResponses),
        [.., "chat", "completions", _] => Some(ModelApi::OpenAiChat),
        _ => None,
    }
}

/// Returns the API of a stored reply that is fetched.
fn fetched(segments: &[&str]) -> Option<ModelApi> {
    Some(match segments {
        // `GET …/responses/{id}/input_items` returns no reply.
        [.., "responses", _] => ModelApi::OpenAiResponses,
        [.., "chat", "completions", _] => ModelApi::OpenAiChat,
        // Lists of replies.
        [.., "chat", "completions"]
        | [.., "chat", "completions", _, "messages"]
        | [.., "messages", "batches", _, "results"]
        | [.., "conversations", _, "items"]
        | [.., "conversations", _, "items", _]
        | [.., "sessions", _, "events"]
        | [.., "sessions", _, "events", "stream"]
        | [.., "sessions", _, "threads", _, "events" | "stream"]
        | [.., "threads", _, "items" | "messages"]
        | [.., "threads", _, "messages", _]
        | [.., "threads", _, "runs", _, "steps"]
        | [.., "threads", _, "runs", _, "steps", _]
        | [.., "interactions" | "predictions", _] => ModelApi::Unjudged,
        _ if segments.contains(&"realtime") => ModelApi::Unjudged,
        _ => return None,
    })
}

/// Returns the model that a path of Gemini names, such as `m` in `/v1beta/models/m:generateContent`.
pub(crate) fn model_of_path(path: &str) -> Option<&str> {
    let (_, last) = path.rsplit_once('/')?;
    last.rsplit_once(':').map(|(model, _)| model)
}

/// Returns true if the URL is that of a stream of Gemini without `alt=sse`, which is a JSON array.
pub(crate) fn streams_array(uri: &Uri) -> bool {
    let path = plain_path(uri.path());
    let method = plain_segments(&path)
        .pop()
        .and_then(|last| last.rsplit_once(':'));
    let query = unescaped(uri.query().unwrap_or_default()).to_ascii_lowercase();
    let is_sse = query
        .split('&')
        .any(|pair| matches!(pair, "alt=sse" | "$alt=sse"));
    method.is_some_and(|(_, name)| name == "streamgeneratecontent") && !is_sse
}

/// Returns the URL of Gemini with another model, or `None` if it names no model or the other name does not fit there.
pub(crate) fn with_model(uri: &Uri, model: &str) -> Option<Uri> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if model.is_empty() || !model.bytes().all(is_plain) {
        return None;
    }
    let (folder, last) = uri.path().rsplit_once('/')?;
    let (_, method) = last.rsplit_once(':')?;
    let query = uri
        .query()
        .map_or_else(String::new, |query| format!("?{query}"));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = format!("{folder}/{model}:{method}{query}").parse().ok();
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mount;

    #[test]
    fn each_api_has_a_path_a_name_and_a_server() {
        let config = ProxyConfig::default();
        for (path, name, host) in [
            ("/v1/messages", "anthropic-messages", "api.anthropic.com"),
            ("/v1/chat/completions", "openai-chat", "api.openai.com"),
            ("/v1/responses", "openai-responses", "api.openai.com"),
            ("/v1/completions", "openai-completions", "api.openai.com"),
            (
                "/v1beta/models/m:generateContent",
                "gemini",
                "generativelanguage.googleapis.com",
            ),
            (
                "/v1beta/models/m:batchGenerateContent",
                "unjudged",
                "api.openai.com",
            ),
            (
                "/v1internal:streamGenerateContent?alt=sse",
                "code-assist",
                "cloudcode-pa.googleapis.com",
            ),
            (
                "/v1internal:generateContent",
                "code-assist",
                "cloudcode-pa.googleapis.com",
            ),
            (
                "/v1internal:generateChat",
                "unjudged",
                "cloudcode-pa.googleapis.com",
            ),
            ("/api/chat", "ollama-chat", "127.0.0.1:11434"),
            ("/api/generate", "ollama-generate", "127.0.0.1:11434"),
        ] {
            let uri: Uri = path.parse().unwrap();
            let found = route(&config, &Method::POST, &uri, false).unwrap();
            assert_eq!(found.api.unwrap().name(), name, "{path}");
            assert_eq!(found.upstream.authority.as_str(), host, "{path}");
        }
    }

    #[test]
    fn other_apis_of_models_and_other_spellings_do_not_pass() {
        use ModelApi::{AnthropicMessages, OpenAiChat, OpenAiResponses, Unjudged};
        for (method, path, found) in [
            ("POST", "/v1/messages;a=b", Some(AnthropicMessages)),
            ("POST", "/v1/messages%20", Some(AnthropicMessages)),
            ("POST", "/v1/messages%00/", Some(AnthropicMessages)),
            ("POST", "/v1/messages%3fbeta=true", Some(AnthropicMessages)),
            ("post", "/v1/messages", Some(Unjudged)),
            ("PUT", "/v1/messages", Some(Unjudged)),
            ("POST", "/v1/responses/compact", Some(OpenAiResponses)),
            ("POST", "/v1/responses/r/cancel", Some(OpenAiResponses)),
            ("POST", "/v1/chat/completions/c", Some(OpenAiChat)),
            ("PUT", "/v1/responses/r/cancel", None),
            ("POST", "/p/models/c:streamRawPredict", Some(Unjudged)),
            ("POST", "/p/models/c:rawPredict", Some(Unjudged)),
            ("POST", "/models/g:generateAnswer", Some(Unjudged)),
            ("POST", "/model/c/invoke", Some(Unjudged)),
            (
                "POST",
                "/model/c/invoke-with-response-stream",
                Some(Unjudged),
            ),
            ("POST", "/model/c/converse", Some(Unjudged)),
            ("POST", "/model/c/converse-stream", Some(Unjudged)),
            ("POST", "/v2/chat", Some(Unjudged)),
            ("POST", "/v1beta/interactions", Some(Unjudged)),
            ("POST", "/v1/threads/t/runs", Some(Unjudged)),
            ("POST", "/v1/sessions/s/events", Some(Unjudged)),
            ("GET", "/v1/sessions/s/events/stream", Some(Unjudged)),
            ("GET", "/v1/sessions/s/threads/t/stream", Some(Unjudged)),
            ("GET", "/v1/sessions/s", None),
            ("GET", "/v1/chatkit/threads/t/items", Some(Unjudged)),
            ("GET", "/v1/chat/completions", Some(Unjudged)),
            ("GET", "/v1/messages/batches/b/results", Some(Unjudged)),
            ("GET", "/v1/messages/batches/b", None),
            ("GET", "/v1/responses/r/input_items", None),
            ("POST", "/v2/messages", Some(AnthropicMessages)),
            ("POST", "/v1/beta/messages", Some(AnthropicMessages)),
            ("POST", "/v1/messages/batches", Some(Unjudged)),
            ("POST", "/v1/messages/batches/b/cancel", None),
            ("POST", "/v1/batches", Some(Unjudged)),
            ("POST", "/v1/chat/completions/c/messages", Some(Unjudged)),
            ("GET", "/v1/chat/completions/c/messages", Some(Unjudged)),
            ("POST", "/v1/threads/t/messages", Some(Unjudged)),
            ("GET", "/v1/threads/t/runs/r/steps", Some(Unjudged)),
            ("POST", "/v1/conversations/c/items", Some(Unjudged)),
            ("POST", "/v1/conversations", None),
            ("POST", "/generate", Some(Unjudged)),
            ("POST", "/v1/generate", Some(Unjudged)),
            ("POST", "/generate_stream", Some(Unjudged)),
            ("POST", "/v1/predictions", Some(Unjudged)),
            ("GET", "/v1/predictions/p", Some(Unjudged)),
            ("POST", "/p/models/t:predict", Some(Unjudged)),
            ("POST", "/models/t:generateText", Some(Unjudged)),
            ("POST", "/agents/a:streamQuery", Some(Unjudged)),
            ("POST", "/models/e:embedContent", None),
            ("POST", "/model/arn%3Aaws%2Fx/invoke", Some(Unjudged)),
            ("POST", "/retrieveAndGenerate", Some(Unjudged)),
            ("GET", "/v1/realtime", Some(Unjudged)),
            ("POST", "/v1/realtime/client_secrets", Some(Unjudged)),
            ("POST", "/v1/responses/input_tokens", None),
            ("POST", "/v1/messages/count_tokens", None),
            ("POST", "/models/g:countTokens", None),
            ("DELETE", "/v1/responses/r", None),
            ("POST", "/", None),
        ] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(api(&method, path), found, "{method} {path}");
        }
    }

    #[test]
    fn other_apis_than_those_of_models_in_text_are_known() {
        for (path, want) in [
            ("/v1/messages/count_tokens?beta=true", true),
            ("/v1/embeddings", true),
            ("/v1/moderations", true),
            ("/v1/images/generations", true),
            ("/v1/audio/speech", true),
            ("/v1/files", true),
            ("/v1/uploads/u/parts", true),
            ("/api/show", true),
            ("/v1beta/models/m:countTokens", true),
            ("/v1beta/models/m:batchEmbedContents", true),
            ("/v1/models", false),
            ("/v1beta/cachedContents", false),
            ("/x", false),
            ("/", false),
        ] {
            assert_eq!(is_other_api(path), want, "{path}");
        }
    }

    #[test]
    fn embedding_models_of_vertex_pass_and_no_other_model_does() {
        let url = UpstreamUrl::parse("https://aiplatform.example").unwrap();
        let config = ProxyConfig {
            fallback: Some(url),
            ..ProxyConfig::default()
        };
        let of = |method: Method, path: &str| {
            let uri: Uri = path.parse().unwrap();
            let found = route(&config, &method, &uri, false).unwrap();
            (found.api, found.is_other_api)
        };
        let google = "/v1/projects/p/locations/us-central1/publishers/google/models";
        for model in [
            "text-embedding-005",
            "text-multilingual-embedding-002",
            "gemini-embedding-001",
            "textembedding-gecko@003",
            "multimodalembedding@001",
        ] {
            let path = format!("{google}/{model}:predict");
            assert_eq!(of(Method::POST, &path), (None, true), "{path}");
            let put = of(Method::PUT, &path);
            assert_eq!(put, (Some(ModelApi::Unjudged), false), "{path}");
            for method in ["streamGenerateContent", "generateContent"] {
                let path = format!("{google}/{model}:{method}");
                let found = of(Method::POST, &path);
                assert_eq!(found, (Some(ModelApi::Gemini), false), "{path}");
            }
        }
        for path in [
            "chat-bison:predict",
            "gemini-2.0-flash:predict",
            "my-text-embedding-005:predict",
            "text-embedding-005:rawPredict",
            "text-embedding-005:serverStreamingPredict",
            "chat-bison:predict/publishers/google/models/text-embedding-005:predict",
            "chat-bison:predict%3F/publishers/google/models/text-embedding-005:predict",
            "chat-bison:predict%23/publishers/google/models/text-embedding-005:predict",
            "x;/publishers/google/models/text-embedding-005:predict",
            "text-embedding-005%2F..%2Fchat-bison:predict",
            "text-embedding-005;chat-bison:predict",
            "text-embedding-005:predict:predict",
            "/text-embedding-005:predict",
            "text-embedding-005%3Apredict",
            "TEXT-EMBEDDING-005:predict",
        ] {
            let path = format!("{google}/{path}");
            let (api, is_other) = of(Method::POST, &path);
            assert!(!is_other, "{path}");
            // A body at a path that is not known must not look like a request to a model.
            assert!(matches!(api, Some(ModelApi::Unjudged) | None), "{path}");
        }
        for path in [
            "/v1/projects/p/locations/l/endpoints/7:predict",
            "/v1/publishers/other/models/text-embedding-005:predict",
            "/v1/models/text-embedding-005:predict",
        ] {
            let found = of(Method::POST, path);
            assert_eq!(found, (Some(ModelApi::Unjudged), false), "{path}");
        }
    }

    #[test]
    fn the_longest_mount_then_the_fallback_then_the_known_apis_apply() {
        let url = |url| UpstreamUrl::parse(url).unwrap();
        let mut config = ProxyConfig::default();
        config
            .mounts
            .push(Mount::new("/openai/eu/", url("https://eu.example/base")));
        let to = |config: &ProxyConfig, method: Method, path: &str, is_anthropic| {
            let uri: Uri = path.parse().unwrap();
            let found = route(config, &method, &uri, is_anthropic)?;
            Some(found.upstream.join(found.rest).unwrap().to_string())
        };
        for (method, path, is_anthropic, target) in [
            (
                "POST",
                "/anthropic/v1/messages?beta=true",
                false,
                "https://api.anthropic.com/v1/messages?beta=true",
            ),
            ("HEAD", "/anthropic", false, "https://api.anthropic.com/"),
            (
                "HEAD",
                "/anthropic?x=1",
                false,
                "https://api.anthropic.com/?x=1",
            ),
            (
                "POST",
                "/openai/v1/responses",
                false,
                "https://api.openai.com/v1/responses",
            ),
            (
                "POST",
                "/openai/eu/v1/responses",
                false,
                "https://eu.example/base/v1/responses",
            ),
            (
                "POST",
                "/v1/messages",
                false,
                "https://api.anthropic.com/v1/messages",
            ),
            (
                "POST",
                "/v1/chat/completions",
                false,
                "https://api.openai.com/v1/chat/completions",
            ),
            (
                "GET",
                "/v1/models",
                false,
                "https://api.openai.com/v1/models",
            ),
            (
                "GET",
                "/v1/models",
                true,
                "https://api.anthropic.com/v1/models",
            ),
            (
                "POST",
                "/code-assist/v1internal:loadCodeAssist",
                false,
                "https://cloudcode-pa.googleapis.com/v1internal:loadCodeAssist",
            ),
            (
                "POST",
                "/v1internal:countTokens",
                false,
                "https://cloudcode-pa.googleapis.com/v1internal:countTokens",
            ),
            (
                "GET",
                "/v1internal/operations/1",
                false,
                "https://cloudcode-pa.googleapis.com/v1internal/operations/1",
            ),
            ("GET", "/v1internals", false, ""),
            ("GET", "/openaix/v1", false, ""),
            ("GET", "/", false, ""),
        ] {
            let found = to(&config, method.parse().unwrap(), path, is_anthropic);
            assert_eq!(found.unwrap_or_default(), target, "{path}");
        }
        config.fallback = Some(url("http://localhost:11434/"));
        let found = to(&config, Method::GET, "/v1/models", false);
        assert_eq!(found.as_deref(), Some("http://localhost:11434/v1/models"));
    }

    #[test]
    fn the_model_of_gemini_is_in_the_path() {
        let uri: Uri = "http://h:1/v1beta/models/g-1.5:generateContent?key=k&alt=sse"
            .parse()
            .unwrap();
        assert_eq!(model_of_path(uri.path()), Some("g-1.5"));
        let other = with_model(&uri, "g_2").map(|it| it.to_string());
        let want = "http://h:1/v1beta/models/g_2:generateContent?key=k&alt=sse";
        assert_eq!(other.as_deref(), Some(want));
        for model in ["", "../x", "a:b", "a?b", "a b"] {
            assert_eq!(with_model(&uri, model), None, "{model}");
        }
        let escaped: Uri = "http://h/models/g%3AgenerateContent".parse().unwrap();
        assert_eq!(model_of_path(escaped.path()), None);
        assert_eq!(with_model(&escaped, "other"), None);
    }

    #[test]
    fn a_stream_of_gemini_is_an_array_unless_it_is_asked_for_events() {
        for (path, want) in [
            ("/v1beta/models/m:streamGenerateContent", true),
            (
                "/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent",
                true,
            ),
            ("/models/m%3AstreamGeneratecontent/?key=k", true),
            ("/v1internal:streamGenerateContent", true),
            ("/v1internal:streamGenerateContent?alt=sse", false),
            (
                "/v1beta/models/m:streamGenerateContent?alt=json&key=k",
                true,
            ),
            ("/v1beta/models/m:streamGenerateContent?$alt=json", true),
            ("/v1beta/models/m:streamGenerateContent?alt=sse", false),
            (
                "/v1beta/models/m:streamGenerateContent?key=k&%24alt=SSE",
                false,
            ),
            ("/v1beta/models/m:streamGenerateContent?salt=sse", true),
            ("/v1beta/models/m:generateContent", false),
            (
                "/v1beta/models/m:generateContent?x=:streamGenerateContent",
                false,
            ),
            ("/v1beta/models/streamGenerateContent", false),
            ("/", false),
        ] {
            let uri: Uri = format!("http://h{path}").parse().unwrap();
            assert_eq!(streams_array(&uri), want, "{path}");
        }
    }

    #[test]
    fn the_base_path_of_a_server_is_part_of_the_path_that_names_the_api() {
        for (base, path, want) in [
            ("/api", "/chat", Some(ModelApi::OllamaChat)),
            ("/api/", "//generate", Some(ModelApi::OllamaGenerate)),
            ("/v1", "/messages", Some(ModelApi::AnthropicMessages)),
            ("/v1/chat", "/completions", Some(ModelApi::OpenAiChat)),
            // The base paths of some servers end in another name than `v1`.
            ("/anthropic", "/messages", Some(ModelApi::AnthropicMessages)),
            ("/anthropic", "/messages/count_tokens", None),
            ("/api", "/tags", None),
            ("/x", "/chat", Some(ModelApi::Unjudged)),
        ] {
            let url = UpstreamUrl::parse(&format!("http://localhost{base}")).unwrap();
            let config = ProxyConfig {
                mounts: vec![Mount::new("/local", url.clone())],
                ..ProxyConfig::default()
            };
            let uri: Uri = format!("/local{path}?x=1").parse().unwrap();
            let found = route(&config, &Method::POST, &uri, false).unwrap();
            assert_eq!(found.api, want, "{base} {path}");
            let config = ProxyConfig {
                fallback: Some(url),
                ..ProxyConfig::default()
            };
            let uri: Uri = path.parse().unwrap();
            let found = route(&config, &Method::POST, &uri, false).unwrap();
            assert_eq!(found.api, want, "{base} {path} of the fallback");
        }
    }

    #[test]
    fn an_api_is_known_however_its_path_is_written() {
        use ModelApi::{
            AnthropicMessages, CodeAssist, Gemini, OllamaChat, OllamaGenerate, OpenAiChat,
            OpenAiCompletions, OpenAiResponses, Unjudged,
        };
        for (method, path, want) in [
            ("POST", "/v1/messages", Some(AnthropicMessages)),
            ("POST", "//v1//%6dessages/", Some(AnthropicMessages)),
            ("POST", "/V1/Messages", Some(AnthropicMessages)),
            ("POST", "/v1/messages/count_tokens", None),
            ("POST", "/api/v1/chat/completions", Some(OpenAiChat)),
            ("GET", "/v1/chat/completions/chatcmpl-1", Some(OpenAiChat)),
            ("POST", "/v1/responses", Some(OpenAiResponses)),
            ("GET", "/v1/responses/resp_1", Some(OpenAiResponses)),
            ("GET", "/v1/responses/resp_1/input_items", None),
            ("POST", "/v1/completions", Some(OpenAiCompletions)),
            ("POST", "/v1/complete", Some(Unjudged)),
            ("POST", "/api/chat", Some(OllamaChat)),
            ("POST", "/api/generate", Some(OllamaGenerate)),
            (
                "POST",
                "/v1beta/models/g:streamGenerateContent",
                Some(Gemini),
            ),
            ("POST", "/v1beta/models/g%3AgenerateContent", Some(Gemini)),
            (
                "POST",
                "/v1beta/models/g:batchGenerateContent",
                Some(Unjudged),
            ),
            ("POST", "/v1beta/models/g:countTokens", None),
            (
                "POST",
                "/v1internal:streamGenerateContent",
                Some(CodeAssist),
            ),
            (
                "POST",
                "/base//V1Internal%3AgenerateContent/",
                Some(CodeAssist),
            ),
            ("POST", "/v2:generateContent", Some(CodeAssist)),
            ("POST", "/v1beta/models/v2:generateContent", Some(Gemini)),
            ("POST", "/v1/tunedModels/v2:generateContent", Some(Gemini)),
            ("POST", "/veo:generateContent", Some(Gemini)),
            ("POST", "/v1internal:generateCode", Some(Unjudged)),
            ("put", "/v1internal:generateContent", Some(Unjudged)),
            ("POST", "/v1internal:loadCodeAssist", None),
            ("POST", "/v1internal:onboardUser", None),
            ("POST", "/v1internal:recordCodeAssistMetrics", None),
            ("GET", "/v1internal/operations/1", None),
            ("GET", "/v1/models", None),
        ] {
            assert_eq!(api(&method.parse().unwrap(), path), want, "{method} {path}");
        }
    }
}
