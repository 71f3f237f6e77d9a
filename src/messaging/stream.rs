//! The socket below the AMQP client, with a [`FrameRepair`] for incoming bytes.

use std::{
    future::Future,
    io::{self, IoSlice, Read, Write},
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use async_compat::Compat;
use async_rs::{
    Runtime, Tokio,
    traits::Reactor,
    util::{DummyIO, RuntimeParts},
};
use futures_util::{
    Stream,
    io::{AsyncRead, AsyncWrite},
};
use lapin::tcp::AsyncTcpStream;
use tokio::{net::TcpStream, time::Sleep};
use tokio_rustls::client::TlsStream;

use super::{frames::FrameRepair, product, read_coalescer::ReadCoalescer};

/// The size of a read, in bytes.
const READ_BYTES: usize = 64 * 1024;
/// After a read of this size, the next read is not delayed.
const MANY_BYTES: usize = READ_BYTES / 4;

/// The transport below the frames.
pub(super) enum Socket {
    Plain(Compat<TcpStream>),
    Tls(Box<Compat<TlsStream<TcpStream>>>),
}

impl Socket {
    fn reader(&mut self) -> Pin<&mut (dyn AsyncRead + Unpin)> {
        match self {
            Self::Plain(stream) => Pin::new(stream),
            Self::Tls(stream) => Pin::new(&mut **stream),
        }
    }

    fn writer(&mut self) -> Pin<&mut (dyn AsyncWrite + Unpin)> {
        match self {
            Self::Plain(stream) => Pin::new(stream),
            Self::Tls(stream) => Pin::new(&mut **stream),
        }
    }
}

/// The stream that the client reads: whole, valid frames.
pub(super) type ReadableStream = AsyncTcpStream<Readable>;

/// A socket that returns only valid frames.
pub(super) struct Readable {
    socket: Socket,
    repair: FrameRepair,
    scratch: Box<[u8]>,
    ready: Vec<u8>,
    taken: usize,
    coalescer: ReadCoalescer,
    /// Whether the broker's product was checked.
    is_known: bool,
    /// The timer of the delay before the next read.
    rest: Pin<Box<Sleep>>,
    rests: bool,
}

impl Readable {
    /// `frame_max`: the limit that the client requests; 0 means no limit.
    pub(super) fn new(socket: Socket, frame_max: u32, coalescer: ReadCoalescer) -> Self {
        let scratch = vec![0; READ_BYTES].into_boxed_slice();
        let repair = FrameRepair::new(frame_max);
        let rest = Box::pin(tokio::time::sleep(Duration::ZERO));
        let ready = Vec::new();
        Self {
            socket,
            repair,
            scratch,
            ready,
            taken: 0,
            coalescer,
            is_known: false,
            rest,
            rests: false,
        }
    }

    /// Delays the next read after few deliveries. After an answer there is no delay, because another answer may follow.
    fn rest_after(&mut self, count: usize) {
        let within = self.coalescer.within();
        let answers = self.repair.take_answers();
        self.rests = !within.is_zero() && !answers && count < MANY_BYTES;
        if self.rests {
            self.rest.as_mut().reset(tokio::time::Instant::now() + within);
        }
    }

    fn before_a_write(&mut self) {
        if self.coalescer.ends() && self.rests {
            // Wakes the task that waits for the timer.
            self.rest.as_mut().reset(tokio::time::Instant::now());
        }
    }
}

impl AsyncRead for Readable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        while this.taken == this.ready.len() {
            this.ready.clear();
            this.taken = 0;
            if this.rests {
                ready!(this.rest.as_mut().poll(cx));
                this.rests = false;
            }
            let count = ready!(this.socket.reader().poll_read(cx, &mut this.scratch))?;
            if count == 0 {
                return Poll::Ready(Ok(0));
            }
            this.repair.feed(&this.scratch[..count], &mut this.ready);
            if !this.is_known && !this.ready.is_empty() {
                this.is_known = true;
                if let Some(other) = product::other(&this.ready) {
                    return Poll::Ready(Err(io::Error::other(other)));
                }
            }
            this.rest_after(count);
        }
        let left = &this.ready[this.taken..];
        let count = left.len().min(buffer.len());
        buffer[..count].copy_from_slice(&left[..count]);
        this.taken += count;
        Poll::Ready(Ok(count))
    }
}

impl AsyncWrite for Readable {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.before_a_write();
        self.socket.writer().poll_write(cx, buffer)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.before_a_write();
        self.socket.writer().poll_write_vectored(cx, buffers)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.writer().poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.writer().poll_close(cx)
    }
}

/// The tokio runtime with [`Readable`] as its stream type, because lapin takes the type from it.
pub(super) fn runtime() -> Runtime<RuntimeParts<Tokio, ReadableReactor>> {
    Runtime::new(RuntimeParts::new(Tokio::current(), ReadableReactor(Tokio::current())))
}

#[derive(Clone, Debug)]
pub(super) struct ReadableReactor(Tokio);

impl Reactor for ReadableReactor {
    type TcpStream = Readable;
    type Sleep = <Tokio as Reactor>::Sleep;

    /// Not called: [`super::connect`] opens the socket.
    fn register<H: Read + Write + Send + 'static>(
        &self,
        _socket: H,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static> {
        Err::<DummyIO, _>(io::Error::from(io::ErrorKind::Unsupported))
    }

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        self.0.sleep(duration)
    }

    fn interval(&self, duration: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        self.0.interval(duration)
    }

    fn tcp_connect_addr(
        &self,
        address: SocketAddr,
    ) -> impl Future<Output = io::Result<Self::TcpStream>> + Send + 'static {
        let connecting = self.0.tcp_connect_addr(address);
        async move { Ok(Readable::new(Socket::Plain(connecting.await?), 0, ReadCoalescer::default())) }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use async_compat::CompatExt;
    use tokio::{io::AsyncWriteExt, net::TcpListener};

    use super::*;

    const DELIVERY: [u8; 12] = [1, 0, 1, 0, 0, 0, 4, 0, 60, 0, 60, 0xCE];
    const CHANNEL_OPEN_OK: [u8; 12] = [1, 0, 1, 0, 0, 0, 4, 0, 20, 0, 11, 0xCE];

    async fn read(readable: &mut Readable) -> Vec<u8> {
        let mut buffer = [0; 64];
        let read = poll_fn(|cx| Pin::new(&mut *readable).poll_read(cx, &mut buffer)).await;
        buffer[..read.unwrap()].to_vec()
    }

    #[tokio::test]
    async fn after_a_delivery_others_are_gathered_and_after_an_answer_nothing_waits() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut broker, _) = listener.accept().await.unwrap();
        let coalescer = ReadCoalescer::default();
        coalescer.set(Duration::from_hours(1));
        let mut readable = Readable::new(Socket::Plain(client.compat()), 0, coalescer.clone());
        for _ in 0..2 {
            broker.write_all(&CHANNEL_OPEN_OK).await.unwrap();
            assert_eq!(read(&mut readable).await, CHANNEL_OPEN_OK);
        }
        broker.write_all(&DELIVERY).await.unwrap();
        assert_eq!(read(&mut readable).await, DELIVERY);
        assert!(readable.rests);
        // Ends the delay.
        readable.rest.as_mut().reset(tokio::time::Instant::now());
        coalescer.set(Duration::ZERO);
        for _ in 0..2 {
            broker.write_all(&DELIVERY).await.unwrap();
            assert_eq!(read(&mut readable).await, DELIVERY);
            assert!(!readable.rests);
        }
    }

    /// A write ends the delay in two cases: with a small prefetch, because the next delivery follows an ack; and for a
    /// request, because its answer may follow any number of deliveries.
    #[tokio::test]
    async fn a_write_in_a_hurry_ends_the_rest_and_others_do_not() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut broker, _) = listener.accept().await.unwrap();
        let coalescer = ReadCoalescer::default();
        coalescer.set(Duration::from_hours(1));
        let mut readable = Readable::new(Socket::Plain(client.compat()), 0, coalescer.clone());
        let mut deliver = async |readable: &mut Readable| {
            broker.write_all(&DELIVERY).await.unwrap();
            assert_eq!(read(readable).await, DELIVERY);
            readable.rests
        };
        let write = async |readable: &mut Readable| {
            poll_fn(|cx| Pin::new(&mut *readable).poll_write(cx, &[0])).await.unwrap();
            readable.rest.deadline() <= tokio::time::Instant::now()
        };
        assert!(deliver(&mut readable).await && !write(&mut readable).await);
        coalescer.read_soon_once();
        assert!(write(&mut readable).await);
        assert!(deliver(&mut readable).await, "it was for once");
        let low_latency = coalescer.low_latency();
        assert!(write(&mut readable).await);
        assert!(!deliver(&mut readable).await, "nothing waits while an answer is waited for");
        drop(low_latency);
        assert!(deliver(&mut readable).await && !write(&mut readable).await);
    }
}
