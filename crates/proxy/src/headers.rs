//! The header fields that a proxy removes, adds and checks: RFC 9110, sections 7.2, 7.6 and 10.1.1.

use std::net::IpAddr;

use hyper::body::Bytes;
use hyper::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST,
    HeaderMap, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, VIA,
};
use hyper::http::uri::Authority;
use hyper::{Request, Version};
use ttsr::conversation::Note;
use ttsr::rule::Header;

use crate::token::TOKEN;

/// The fields that concern one connection. `Keep-Alive` and `Proxy-Connection` are not in the standard; section 7.6.1 asks
/// to remove them, too.
const OF_ONE_CONNECTION: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-authenticate"),
    HeaderName::from_static("proxy-authorization"),
    HeaderName::from_static("proxy-connection"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Removes the fields that concern one connection, and those that `Connection` names.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
        .collect();
    for name in named.iter().chain(&OF_ONE_CONNECTION) {
        headers.remove(name);
    }
}

/// Turns the header fields of a client's request into those of the request to the server.
pub(crate) fn prepare_request(headers: &mut HeaderMap, received: Version) {
    remove_hop_by_hop(headers);
    headers.remove(TOKEN);
    // The client of hyper sets the host of the URL. An expectation was met when the body was first read.
    headers.remove(HOST);
    headers.remove(EXPECT);
    let via = match received {
        Version::HTTP_2 => "2.0 ttsr",
        Version::HTTP_10 => "1.0 ttsr",
        _ => "1.1 ttsr",
    };
    headers.append(VIA, HeaderValue::from_static(via));
}

/// Returns the fields with their values in an allocation of their own. The values of a request share the buffer from which
/// its connection was read, and keep all of it, 8 KiB or more, as long as one of them exists.
pub(crate) fn detached(headers: &HeaderMap) -> HeaderMap {
    let len = headers.values().map(HeaderValue::len).sum();
    let mut bytes = Vec::with_capacity(len);
    headers
        .values()
        .for_each(|value| bytes.extend_from_slice(value.as_bytes()));
    let mut rest = Bytes::from(bytes);
    let mut copy = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let bytes = rest.split_to(value.len());
        let mut own =
            HeaderValue::from_maybe_shared(bytes).expect("the bytes are those of a value");
        own.set_sensitive(value.is_sensitive());
        copy.append(name.clone(), own);
    }
    copy
}

/// Sets the fields that rules set on a request. Those that concern the connection or the body stay as they are.
pub(crate) fn set_headers(headers: &mut HeaderMap, set: &[Header]) {
    let of_transport = [
        HOST,
        CONTENT_LENGTH,
        CONTENT_ENCODING,
        ACCEPT_ENCODING,
        EXPECT,
    ];
    for header in set {
        let name = HeaderName::from_bytes(header.name.as_bytes());
        let value = HeaderValue::from_str(&header.value);
        if let (Ok(name), Ok(value)) = (name, value)
            && !of_transport.contains(&name)
            && !OF_ONE_CONNECTION.contains(&name)
        {
            headers.insert(name, value);
        }
    }
}

/// The field of a response with a warning of a rule.
const WARNING: HeaderName = HeaderName::from_static("x-ttsr-warning");

/// The most warnings in the head of a response, and the most characters of each.
const WARNINGS: usize = 8;
const WARNING_CHARS: usize = 256;

/// Adds warnings to the head of a response, with other characters than those of printable ASCII replaced by `?`.
pub(crate) fn add_warnings(headers: &mut HeaderMap, warnings: &[Note]) {
    for warning in warnings.iter().take(WARNINGS) {
        let text = format!("{}: {}", warning.rule, warning.text);
        let printable = |char: char| match char {
            ' '..='~' => char,
            _ if char.is_whitespace() => ' ',
            _ => '?',
        };
        let text: String = text.chars().take(WARNING_CHARS).map(printable).collect();
        if let Ok(value) = HeaderValue::from_str(text.trim()) {
            headers.append(WARNING, value);
        }
    }
}

/// The fields with another method than that of the request, which some servers take instead.
const METHODS: [HeaderName; 3] = [
    HeaderName::from_static("x-http-method"),
    HeaderName::from_static("x-http-method-override"),
    HeaderName::from_static("x-method-override"),
];

/// Returns true if a field of the request has another method.
pub(crate) fn has_other_method(headers: &HeaderMap) -> bool {
    METHODS.iter().any(|name| headers.contains_key(name))
}

/// Removes the checksums of a body that rules may change.
pub(crate) fn remove_digests(headers: &mut HeaderMap) {
    for name in ["content-digest", "repr-digest", "digest", "content-md5"] {
        headers.remove(name);
    }
}

/// Returns true if a client asks to go on with the WebSocket protocol.
pub(crate) fn is_websocket(headers: &HeaderMap) -> bool {
    let protocols = headers.get_all(UPGRADE).iter();
    let mut protocols = protocols.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    protocols.any(|protocol| protocol.trim_ascii().eq_ignore_ascii_case(b"websocket"))
}

/// The types of bodies that servers do not read as JSON.
const BINARY: [&str; 10] = [
    "application/grpc",
    "application/octet-stream",
    "application/pdf",
    "application/protobuf",
    "application/x-protobuf",
    "application/zip",
    "audio/",
    "image/",
    "multipart/",
    "video/",
];

/// Returns true if a server may read the body as JSON. Some servers do whatever the type is, such as that of a form, with
/// which tools send JSON if they are not told another one.
pub(crate) fn may_be_json(headers: &HeaderMap) -> bool {
    let kinds = headers.get_all(CONTENT_TYPE).iter();
    let mut kinds = kinds.map(|kind| kind.as_bytes().trim_ascii_start());
    let is_binary = |kind: &[u8]| {
        BINARY.iter().any(|known| {
            let start = kind.get(..known.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(known.as_bytes()))
        })
    };
    headers.get(CONTENT_TYPE).is_none() || kinds.any(|kind| !is_binary(kind))
}

/// Returns true if the request names a host, in its `Host` field or its target, and each host that it names is accepted: a
/// loopback name, or one of `accepted`. A web page whose name was changed to point to a loopback address (DNS rebinding)
/// sends its own name.
pub(crate) fn names_accepted_host<B>(request: &Request<B>, accepted: &[String]) -> bool {
    // HTTP/2 has the pseudo-header `:authority`, and HTTP/1.1 the absolute form of the target, which counts more than the
    // field.
    let target = request.uri().authority().cloned();
    let fields = request.headers().get_all(HOST).iter();
    let fields = fields.map(|host| host.to_str().ok().and_then(|host| host.parse().ok()));
    let named: Option<Vec<Authority>> = fields.chain(target.map(Some)).collect();
    let is_single = request.headers().get_all(HOST).iter().count() <= 1;
    named.is_some_and(|named| {
        let mut hosts = named.iter();
        is_single && !named.is_empty() && hosts.all(|host| is_accepted_host(host, accepted))
    })
}

fn is_accepted_host(named: &Authority, accepted: &[String]) -> bool {
    // Text before `@` is a user.
    if named.as_str().contains('@') {
        return false;
    }
    let host = named.host().trim_start_matches('[').trim_end_matches(']');
    // The dot at the end of a name says that it is complete.
    let name = host.strip_suffix('.').unwrap_or(host);
    let is_loopback = name.eq_ignore_ascii_case("localhost")
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    let plain = |name: &str| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    is_loopback || accepted.iter().any(|it| plain(it) == plain(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_one_connection_are_removed_and_others_stay() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Private"),
            ("connection", "x-other"),
            ("x-private", "1"),
            ("x-other", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("proxy-authorization", "Basic x"),
            ("expect", "100-continue"),
            ("host", "localhost"),
            ("x-ttsr-token", "0123456789abcdef"),
            ("authorization", "Bearer key"),
            ("x-api-key", "key"),
            ("via", "1.1 other"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        prepare_request(&mut headers, Version::HTTP_11);
        let mut left: Vec<_> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        left.sort();
        assert_eq!(
            left,
            [
                "authorization: Bearer key",
                "via: 1.1 other",
                "via: 1.1 ttsr",
                "x-api-key: key"
            ]
        );
    }

    #[test]
    fn detached_fields_are_the_same_and_share_no_bytes() {
        let shared = Bytes::from("onetwothree".to_owned());
        let mut headers = HeaderMap::new();
        for (name, range) in [("x-a", 0..3), ("x-b", 3..6), ("x-a", 6..11), ("x-c", 0..0)] {
            let value = HeaderValue::from_maybe_shared(shared.slice(range));
            headers.append(name, value.unwrap());
        }
        headers.get_mut("x-b").unwrap().set_sensitive(true);
        let copy = detached(&headers);
        assert_eq!(copy, headers);
        assert!(copy["x-b"].is_sensitive() && !copy["x-c"].is_sensitive());
        drop(headers);
        assert!(shared.is_unique());
    }

    #[test]
    fn only_loopback_names_and_configured_names_are_accepted() {
        let accepted = ["proxy.internal".to_owned()];
        for (host, is_accepted) in [
            ("localhost", true),
            ("LOCALHOST:8787", true),
            ("127.0.0.1:8787", true),
            ("127.8.9.1", true),
            ("[::1]:8787", true),
            ("proxy.internal", true),
            ("evil.example", false),
            ("localhost.evil.example", false),
            ("192.168.0.1", false),
            ("", false),
        ] {
            let request = Request::builder().header("host", host).body(()).unwrap();
            assert_eq!(
                names_accepted_host(&request, &accepted),
                is_accepted,
                "{host}"
            );
        }
        let twice = Request::builder()
            .header("host", "localhost")
            .header("host", "localhost");
        assert!(!names_accepted_host(&twice.body(()).unwrap(), &accepted));
        let none = Request::builder().uri("/").body(()).unwrap();
        assert!(!names_accepted_host(&none, &accepted));
        let h2 = Request::builder()
            .uri("http://localhost:1/")
            .body(())
            .unwrap();
        assert!(names_accepted_host(&h2, &accepted));
    }
}
