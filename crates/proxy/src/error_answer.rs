//! The answers of the proxy itself: errors, in the form of the API of the request, and texts.

use hyper::body::Bytes;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, UPGRADE,
};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use crate::body::ResponseBody;
use crate::routes::ModelApi;

/// An error with which the proxy answers a request, instead of the server.
#[derive(Debug)]
pub(crate) struct ErrorAnswer {
    status: StatusCode,
    message: String,
}

impl ErrorAnswer {
    pub(crate) fn new(status: StatusCode, message: String) -> ErrorAnswer {
        ErrorAnswer { status, message }
    }

    /// Returns the answer with another status.
    pub(crate) fn with_status(self, status: StatusCode) -> ErrorAnswer {
        ErrorAnswer { status, ..self }
    }

    /// Returns the response for clients of that API, if it is known.
    pub(crate) fn into_response(self, api: Option<ModelApi>) -> Response<ResponseBody> {
        let body = self.body(api).to_string();
        let mut response = text_response(self.status, "application/json", &body);
        let headers = response.headers_mut();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            // Some clients wait for far longer without it.
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.status == StatusCode::UPGRADE_REQUIRED {
            // RFC 9110, section 15.5.22, asks for the protocol that is spoken instead.
            headers.insert(UPGRADE, HeaderValue::from_static("HTTP/1.1"));
            headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        }
        response
    }

    /// Returns the error as servers of the API write it, so that clients show the message. The form that is used without
    /// an API is read by the clients of Anthropic's and of OpenAI's APIs.
    fn body(&self, api: Option<ModelApi>) -> Value {
        let (status, kind) = match self.status {
            StatusCode::SERVICE_UNAVAILABLE => ("UNAVAILABLE", "overloaded_error"),
            status if status.is_client_error() => ("INVALID_ARGUMENT", "invalid_request_error"),
            _ => ("INTERNAL", "api_error"),
        };
        match api {
            Some(ModelApi::Gemini | ModelApi::CodeAssist) => {
                let code = self.status.as_u16();
                json!({"error": {"code": code, "message": self.message, "status": status}})
            }
            Some(ModelApi::OllamaChat | ModelApi::OllamaGenerate) => json!({"error": self.message}),
            _ => json!({
                "type": "error",
                "error": {"type": kind, "message": self.message, "param": null, "code": null},
            }),
        }
    }
}

pub(crate) fn text_response(
    status: StatusCode,
    kind: &'static str,
    text: &str,
) -> Response<ResponseBody> {
    let body = Bytes::copy_from_slice(text.as_bytes());
    let mut response = Response::new(ResponseBody::Whole(Some(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
    let no_sniff = HeaderName::from_static("x-content-type-options");
    headers.insert(no_sniff, HeaderValue::from_static("nosniff"));
    response
}
