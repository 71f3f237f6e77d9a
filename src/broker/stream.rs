//! The socket below the AMQP client, with a [`FrameRepair`] on the way in.

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
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::frames::FrameRepair;

/// Bytes asked of the socket at once.
const READ_BYTES: usize = 64 * 1024;

/// What is below the frames.
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

/// What the client gets: whole, readable frames.
pub(super) type ReadableStream = AsyncTcpStream<Readable>;

/// A socket from which only readable frames come.
pub(super) struct Readable {
    socket: Socket,
    repair: FrameRepair,
    scratch: Box<[u8]>,
    ready: Vec<u8>,
    taken: usize,
}

impl Readable {
    /// `frame_max` is what the client asks for; 0 means no limit.
    pub(super) fn new(socket: Socket, frame_max: u32) -> Self {
        let scratch = vec![0; READ_BYTES].into_boxed_slice();
        let repair = FrameRepair::new(frame_max);
        Self { socket, repair, scratch, ready: Vec::new(), taken: 0 }
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
            let count = ready!(this.socket.reader().poll_read(cx, &mut this.scratch))?;
            if count == 0 {
                return Poll::Ready(Ok(0));
            }
            this.repair.feed(&this.scratch[..count], &mut this.ready);
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
        self.socket.writer().poll_write(cx, buffer)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.socket.writer().poll_write_vectored(cx, buffers)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.writer().poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.writer().poll_close(cx)
    }
}

/// tokio, with [`Readable`] as the type of its streams, which is how lapin learns what it reads from.
pub(super) fn runtime() -> Runtime<RuntimeParts<Tokio, ReadableReactor>> {
    Runtime::new(RuntimeParts::new(Tokio::current(), ReadableReactor(Tokio::current())))
}

#[derive(Clone, Debug)]
pub(super) struct ReadableReactor(Tokio);

impl Reactor for ReadableReactor {
    type TcpStream = Readable;
    type Sleep = <Tokio as Reactor>::Sleep;

    /// Nothing asks for it: the socket is opened by [`super::connect`].
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
        async move { Ok(Readable::new(Socket::Plain(connecting.await?), 0)) }
    }
}
