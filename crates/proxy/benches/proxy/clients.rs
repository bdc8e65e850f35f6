//! The clients of the load, and the times that they measure.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::pace::sleep_until;
use crate::{ARRIVAL, LoadSize, PAUSE};

/// The message of a request whose deltas have the time in their text.
pub(crate) const TIME_REQUEST: &str = "Say the time.";

/// The member of a delta that has the time, which has 19 digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StampPlace {
    Created,
    /// For servers that write `created` themselves.
    Text,
}

impl StampPlace {
    /// Returns the text before the time, with the first digit.
    fn mark(self) -> &'static [u8] {
        match self {
            StampPlace::Created => b"\"created\":1",
            StampPlace::Text => b"at 1",
        }
    }

    fn message(self) -> &'static str {
        match self {
            StampPlace::Created => "Hi.",
            StampPlace::Text => TIME_REQUEST,
        }
    }
}

static BEGAN: OnceLock<Instant> = OnceLock::new();

/// Sets the time from which nanoseconds are counted.
pub(crate) fn begin(now: Instant) {
    BEGAN.get_or_init(|| now);
}

/// Nanoseconds since the bench began.
pub(crate) fn now() -> u64 {
    BEGAN
        .get()
        .map_or(0, |began| began.elapsed().as_nanos() as u64)
}

/// The times of a load, in nanoseconds.
#[derive(Default)]
pub(crate) struct Samples {
    /// From the request to the first byte of the body.
    pub(crate) first: Vec<u64>,
    /// From the provider to the client, of each delta that no later one came with.
    pub(crate) deltas: Vec<u64>,
    /// Number of deltas that came together with a later one: those that a rule held, or that waited for a core.
    pub(crate) joined: u64,
    /// The longest time by which a stream ended later than its last delta was due.
    pub(crate) late: Duration,
}

impl Samples {
    pub(crate) fn extend(&mut self, other: Samples) {
        self.first.extend(other.first);
        self.deltas.extend(other.deltas);
        self.joined += other.joined;
        self.late = self.late.max(other.late);
    }
}

/// Returns a percentile of times in nanoseconds, in microseconds.
pub(crate) fn percentile(times: &mut [u64], percent: usize) -> f64 {
    times.sort_unstable();
    times[(times.len() - 1) * percent / 100] as f64 / 1000.0
}

/// Returns the request of a stream in a session of its own.
pub(crate) fn request(session: u32, place: StampPlace) -> String {
    let message = place.message();
    let body = format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":"{message}"}}],"stream":true}}"#
    );
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer dummy\r\n\
         content-type: application/json\r\nsession-id: {session}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len(),
    )
}

/// Takes the data of the complete chunks of a body from `from`. Returns true after the last chunk.
fn take_chunks(from: &mut Vec<u8>, to: &mut Vec<u8>) -> bool {
    let mut at = 0;
    let is_last = loop {
        let rest = &from[at..];
        let Some(end) = rest.windows(2).position(|bytes| bytes == b"\r\n") else {
            break false;
        };
        let size = std::str::from_utf8(&rest[..end]).ok();
        let size = size.and_then(|text| usize::from_str_radix(text, 16).ok());
        let size = size.expect("the size of a chunk");
        let Some(data) = rest.get(end + 2..end + 2 + size) else {
            break false;
        };
        if rest.len() < end + 4 + size {
            break false;
        }
        to.extend_from_slice(data);
        at += end + 4 + size;
        if size == 0 {
            break true;
        }
    };
    from.drain(..at);
    is_last
}

/// Reads one reply, and adds its times.
async fn reply(to: SocketAddr, session: u32, place: StampPlace, samples: &mut Samples) {
    let mark = place.mark();
    let mut socket = TcpStream::connect(to).await.expect("a connection");
    socket.set_nodelay(true).ok();
    let asked = now();
    socket
        .write_all(request(session, place).as_bytes())
        .await
        .expect("a request");
    let (mut raw, mut body) = (Vec::with_capacity(8192), Vec::with_capacity(8192));
    let (mut first, mut has_head) = (None, false);
    loop {
        let len = socket.read_buf(&mut raw).await.expect("a reply");
        assert!(
            len > 0,
            "the reply is cut: {}",
            String::from_utf8_lossy(&raw)
        );
        let received = now();
        if !has_head {
            let Some(end) = raw.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
                continue;
            };
            let head = String::from_utf8_lossy(&raw[..end]);
            assert!(
                head.starts_with("HTTP/1.1 200"),
                "{}",
                String::from_utf8_lossy(&raw)
            );
            raw.drain(..end + 4);
            has_head = true;
        }
        let is_last = take_chunks(&mut raw, &mut body);
        if !body.is_empty() {
            first.get_or_insert(received - asked);
        }
        let (mut read, mut last) = (0, None);
        while let Some(at) = memchr::memmem::find(&body[read..], mark) {
            let digits = read + at + mark.len();
            let Some(digits) = body.get(digits..digits + 18) else {
                break;
            };
            let digits = std::str::from_utf8(digits).ok();
            // A time that a server has cut in two is none.
            if let Some(sent) = digits.and_then(|digits| digits.parse::<u64>().ok()) {
                let time = received.saturating_sub(sent);
                samples.joined += u64::from(last.replace(time).is_some());
            }
            read += at + mark.len() + 18;
        }
        // The rest may have the beginning of a time.
        let kept = body.len().saturating_sub(mark.len() + 18).max(read);
        body.drain(..kept);
        samples.deltas.extend(last);
        if is_last {
            return samples.first.extend(first);
        }
    }
}

/// Runs that many replies, which begin one after the other.
pub(crate) async fn load(to: SocketAddr, size: LoadSize, place: StampPlace) -> Samples {
    let mut running = JoinSet::new();
    let start = Instant::now();
    for number in 0..size.streams {
        running.spawn(async move {
            sleep_until(start + ARRIVAL * number).await;
            let mut samples = Samples::default();
            let began = Instant::now();
            reply(to, number, place, &mut samples).await;
            let count = samples.deltas.len() as u64 + samples.joined;
            let missing = u64::from(size.deltas).checked_sub(count);
            let missing = missing.expect("no delta arrives twice");
            // A server that holds text back may send a time in two deltas.
            assert!(
                missing == 0 || place == StampPlace::Text,
                "all deltas arrive"
            );
            samples.joined += missing;
            samples.late = began.elapsed().saturating_sub(PAUSE * (size.deltas - 1));
            samples
        });
    }
    let mut samples = Samples::default();
    while let Some(ended) = running.join_next().await {
        samples.extend(ended.expect("a reply"));
    }
    samples
}
