//! Connections over HTTP/1.1 that the body of a response polls.
//!
//! A connection of hyper is a future, and it passes the body of a response through a channel for one frame. If a task of its
//! own polls it, two tasks run for each frame, one after the other, and each frame is written to the client by a system call
//! of its own: a proxy that has fallen behind has as much work for a frame as before, and stays behind. So the body polls the
//! connection while it is read. It then returns all frames that have arrived before it is pending, and the proxy writes them
//! at once.
//!
//! A proxy that has fallen behind finds many frames at once. hyper would read them into a buffer that grows with them and stays
//! as large, for each of many streams. So the body of an event stream lets the connection [read in
//! pieces](UpstreamBody::read_in_pieces), and what is not read waits in the buffers of the kernel.
//!
//! The body polls the connection only between a poll in which no frame was there and the end of the body, so the connection
//! serves no other request meanwhile. At all other times the task of the connection polls it.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};

use hyper::Uri;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::rt::{Executor, Read, ReadBuf, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tower_service::Service;

type ConnectionFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The most polls of a connection in one poll of a body. More are a sign that the connection wants to yield.
const MAX_POLLS: usize = 4;

/// The most bytes of an event stream that are read at once. More arrive only if the proxy has fallen behind.
// PERF: of 800 streams that receive 25 deltas at a time, a stream takes 4.6 KiB less than without a bound, and 20 KiB less if the
// proxy is behind.
pub(crate) const PIECE: usize = 1 << 10;

thread_local! {
    /// The driver whose future this thread polls in its task.
    static POLLED: RefCell<Option<Weak<ConnectionDriver>>> = const { RefCell::new(None) };
}

/// Spawns a task for each future of a client of hyper. Those that are connections can be polled by a body as well.
#[derive(Clone, Copy)]
pub(crate) struct DriverExecutor;

impl Executor<ConnectionFuture> for DriverExecutor {
    fn execute(&self, future: ConnectionFuture) {
        tokio::spawn(DriverTask(Arc::new(ConnectionDriver(Mutex::new(
            DriverState {
                future: Some(future),
                is_lent: false,
                task: None,
            },
        )))));
    }
}

/// A future that its task polls, or the body of a response.
struct ConnectionDriver(Mutex<DriverState>);

struct DriverState {
    /// `None` once it is complete.
    future: Option<ConnectionFuture>,
    /// True while a body polls the future.
    is_lent: bool,
    /// The waker of the task.
    task: Option<Waker>,
}

impl ConnectionDriver {
    fn state(&self) -> MutexGuard<'_, DriverState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DriverState {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(future) = &mut self.future else {
            return Poll::Ready(());
        };
        let polled = future.as_mut().poll(cx);
        if polled.is_ready() {
            self.future = None;
        }
        polled
    }
}

/// The task that polls a future while no body does.
struct DriverTask(Arc<ConnectionDriver>);

impl Future for DriverTask {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.state();
        match &mut state.task {
            Some(task) => task.clone_from(cx.waker()),
            task => *task = Some(cx.waker().clone()),
        }
        if state.is_lent {
            return Poll::Pending;
        }
        let outer = POLLED.replace(Some(Arc::downgrade(&self.0)));
        let polled = state.poll(cx);
        POLLED.set(outer);
        polled
    }
}

/// The right of a body to poll a connection. Dropping it gives the connection back to its task.
struct DriverLease {
    driver: Arc<ConnectionDriver>,
    wakes: Arc<BodyWakes>,
    waker: Waker,
}

impl DriverLease {
    /// Returns `None` if the connection is closed, or if another body polls it.
    fn begin(link: &DriverLink) -> Option<DriverLease> {
        let driver = link.0.driver.get()?.upgrade()?;
        let mut state = driver.state();
        if state.is_lent || state.future.is_none() {
            return None;
        }
        state.is_lent = true;
        drop(state);
        let wakes = Arc::new(BodyWakes(Mutex::new(WakeState {
            is_polling: false,
            // The connection has not been polled with this waker.
            is_woken: true,
            task: None,
        })));
        let waker = Waker::from(Arc::clone(&wakes));
        Some(DriverLease {
            driver,
            wakes,
            waker,
        })
    }

    /// Polls for the next frame, and polls the connection until there is one or nothing is left to do.
    fn poll_frame(
        &self,
        incoming: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.wakes.begin(cx.waker());
        let mut own = Context::from_waker(&self.waker);
        for _ in 0..MAX_POLLS {
            if let Poll::Ready(frame) = Pin::new(&mut *incoming).poll_frame(&mut own) {
                self.wakes.end();
                return Poll::Ready(frame);
            }
            if !self.wakes.take() {
                return Poll::Pending;
            }
            // A connection that is complete has closed the channel of the body.
            let _complete = self.driver.state().poll(&mut own);
        }
        // The last poll of the connection may have sent a frame, or asked for another poll.
        self.wakes.end();
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for DriverLease {
    fn drop(&mut self) {
        let mut state = self.driver.state();
        state.is_lent = false;
        let task = state.task.take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
    }
}

/// The waker of a body and of the connection that it polls. While they are polled it wakes no task, because the poll
/// continues until neither has been woken.
struct BodyWakes(Mutex<WakeState>);

struct WakeState {
    is_polling: bool,
    /// True if the connection is to be polled.
    is_woken: bool,
    task: Option<Waker>,
}

impl BodyWakes {
    fn state(&self) -> MutexGuard<'_, WakeState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a poll in the task of that waker.
    fn begin(&self, task: &Waker) {
        let mut state = self.state();
        state.is_polling = true;
        match &mut state.task {
            Some(own) => own.clone_from(task),
            own => *own = Some(task.clone()),
        }
    }

    /// Returns true if the connection is to be polled. Otherwise ends the poll.
    fn take(&self) -> bool {
        let mut state = self.state();
        let is_woken = std::mem::take(&mut state.is_woken);
        state.is_polling = is_woken;
        is_woken
    }

    fn end(&self) {
        self.state().is_polling = false;
    }
}

impl Wake for BodyWakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.state();
        let was_woken = std::mem::replace(&mut state.is_woken, true);
        if state.is_polling || was_woken {
            return;
        }
        let task = state.task.clone();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
    }
}

/// Joins a stream and the bodies of the responses that are read from it.
#[derive(Clone, Default)]
pub(crate) struct DriverLink(Arc<LinkState>);

#[derive(Default)]
struct LinkState {
    /// The driver of the connection, once its task has read from the stream.
    driver: OnceLock<Weak<ConnectionDriver>>,
    /// True while at most [`PIECE`] bytes are read at once.
    reads_pieces: AtomicBool,
}

/// A connector whose responses over HTTP/1.1 have a [`DriverLink`] in their extensions.
#[derive(Clone)]
pub(crate) struct LinkingConnector<C>(pub(crate) C);

impl<C> Service<Uri> for LinkingConnector<C>
where
    C: Service<Uri>,
    C::Future: Send + 'static,
{
    type Response = LinkedStream<C::Response>;
    type Error = C::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, C::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), C::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let connecting = self.0.call(to);
        Box::pin(async move {
            Ok(LinkedStream {
                stream: connecting.await?,
                link: DriverLink::default(),
            })
        })
    }
}

/// A stream that learns which driver polls its connection.
pub(crate) struct LinkedStream<T> {
    stream: T,
    link: DriverLink,
}

impl<T: Connection> Connection for LinkedStream<T> {
    fn connected(&self) -> Connected {
        let connected = self.stream.connected();
        // Over HTTP/2 many bodies share a connection.
        match connected.is_negotiated_h2() {
            true => connected,
            false => connected.extra(self.link.clone()),
        }
    }
}

impl<T: Read + Unpin> Read for LinkedStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let link = &self.link.0;
        if link.driver.get().is_none()
            && let Some(driver) = POLLED.with_borrow(Clone::clone)
        {
            link.driver.set(driver).ok();
        }
        if buffer.remaining() <= PIECE || !link.reads_pieces.load(Ordering::Relaxed) {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let mut room = [MaybeUninit::uninit(); PIECE];
        let mut piece = ReadBuf::uninit(&mut room);
        let polled = Pin::new(&mut self.stream).poll_read(cx, piece.unfilled());
        buffer.put_slice(piece.filled());
        polled
    }
}

impl<T: Write + Unpin> Write for LinkedStream<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }
}

/// The body of a response of a server.
pub(crate) struct UpstreamBody {
    // Dropped before the lease, so that the task of the connection finds the body closed.
    incoming: Incoming,
    /// The connection, while this body polls it.
    lease: Option<DriverLease>,
    /// The connection, until the last byte of the body.
    link: Option<DriverLink>,
    /// True before the body has to wait. Then it polls the connection.
    is_unleased: bool,
}

impl UpstreamBody {
    /// Returns a body that polls its connection, if it has a link to it.
    pub(crate) fn new(incoming: Incoming, link: Option<DriverLink>) -> UpstreamBody {
        UpstreamBody {
            incoming,
            lease: None,
            link,
            is_unleased: true,
        }
    }

    /// Reads at most [`PIECE`] bytes at once from now on.
    pub(crate) fn read_in_pieces(&self) {
        if let Some(link) = &self.link {
            link.0.reads_pieces.store(true, Ordering::Relaxed);
        }
    }

    fn poll_any(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if self.lease.is_none() {
            let polled = Pin::new(&mut self.incoming).poll_frame(cx);
            if polled.is_ready() {
                return polled;
            }
            if std::mem::take(&mut self.is_unleased) {
                self.lease = self.link.as_ref().and_then(DriverLease::begin);
            }
        }
        match &self.lease {
            Some(lease) => lease.poll_frame(&mut self.incoming, cx),
            None => Poll::Pending,
        }
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let body = self.get_mut();
        let polled = body.poll_any(cx);
        let is_last = match &polled {
            Poll::Pending => false,
            Poll::Ready(Some(Ok(frame))) => frame.is_trailers() || body.incoming.is_end_stream(),
            Poll::Ready(_) => true,
        };
        // The connection may serve another request from now on.
        if is_last {
            body.lease = None;
            if let Some(link) = body.link.take() {
                link.0.reads_pieces.store(false, Ordering::Relaxed);
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
