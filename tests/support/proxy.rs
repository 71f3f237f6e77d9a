//! A TCP proxy between a program and a service, for faults of the connection.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::{
    crash_point::{Conversation, Point, Verdict},
    wait::awaited,
};
use socket2::SockRef;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinHandle,
};

/// How the proxy treats connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mode {
    /// Bytes from the program are not forwarded.
    to_service_frozen: bool,
    /// Bytes from the service are not forwarded.
    to_program_frozen: bool,
    /// New connections are reset at once.
    refusing: bool,
    /// Connections that began in an earlier epoch are reset.
    epoch: u64,
    /// All connections freeze at this point.
    point: Option<Point>,
    passed: Passed,
}

/// How near the point is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Passed {
    #[default]
    Nothing,
    /// The confirm for which [`Point::BeforeAckOfCopy`] waits has passed.
    Confirm,
    ThePoint,
}

/// Forwards to one service; connections stay open until [`Proxy::cut`].
pub struct Proxy {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
    attempts: Arc<AtomicUsize>,
    answers: Answers,
    accepting: JoinHandle<()>,
}

/// Bytes from the service, over all connections.
type Answers = Arc<Mutex<Vec<u8>>>;

impl Proxy {
    /// Listens on a free port of this machine and forwards to `service` (`host:port`).
    pub async fn to(service: &str) -> Self {
        Self::new(service, false).await
    }

    /// Like [`Proxy::to`], for [`Proxy::hold_at`].
    pub async fn reading(service: &str) -> Self {
        Self::new(service, true).await
    }

    async fn new(service: &str, reads: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mode = watch::Sender::new(Mode::default());
        let attempts = Arc::default();
        let answers = Answers::default();
        let counted = (Arc::clone(&attempts), Arc::clone(&answers));
        let accepting =
            tokio::spawn(accept(listener, service.to_owned(), mode.clone(), counted, reads));
        Self { address, mode, attempts, answers, accepting }
    }

    /// The port for the program.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The number of connections, including those that were reset at once.
    pub fn attempts(&self) -> usize {
        self.attempts.load(Ordering::Relaxed)
    }

    /// How often the service has sent `word`.
    pub fn answered(&self, word: &str) -> usize {
        let answers = self.answers.lock().unwrap();
        answers.windows(word.len()).filter(|part| *part == word.as_bytes()).count()
    }

    /// Forwards everything again, on new and on frozen connections.
    pub fn pass(&self) {
        self.change(|mode| *mode = Mode { epoch: mode.epoch, ..Mode::default() });
    }

    /// Stops forwarding to the service; replies still pass.
    pub fn freeze_to_service(&self) {
        self.change(|mode| mode.to_service_frozen = true);
    }

    /// Freezes both directions of all connections when a connection first reaches the point.
    pub fn hold_at(&self, point: Point) {
        self.change(|mode| mode.point = Some(point));
    }

    pub async fn until_held(&self) {
        let mut mode = self.mode.subscribe();
        awaited("the point", mode.wait_for(|mode| mode.passed == Passed::ThePoint)).await.unwrap();
    }

    /// Stops forwarding to the program; requests still pass.
    pub fn freeze_to_program(&self) {
        self.change(|mode| mode.to_program_frozen = true);
    }

    /// Resets every open connection; new ones pass.
    pub fn cut(&self) {
        self.change(|mode| mode.epoch += 1);
    }

    /// Resets every open and every new connection until [`Proxy::pass`].
    pub fn refuse(&self) {
        self.change(|mode| {
            mode.epoch += 1;
            mode.refusing = true;
        });
    }

    fn change(&self, change: impl FnOnce(&mut Mode)) {
        self.mode.send_modify(change);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.refuse();
        self.accepting.abort();
    }
}

async fn accept(
    listener: TcpListener,
    service: String,
    mode: watch::Sender<Mode>,
    (attempts, answers): (Arc<AtomicUsize>, Answers),
    reads: bool,
) {
    while let Ok((program, _)) = listener.accept().await {
        attempts.fetch_add(1, Ordering::Relaxed);
        let service = service.clone();
        let (mode, answers) = (mode.clone(), Arc::clone(&answers));
        // Read now, so that a cut or refusal during the connect resets this connection.
        let began = *mode.borrow();
        tokio::spawn(async move {
            // An early end is a reset, not a polite close.
            let _ = SockRef::from(&program).set_linger(Some(Duration::ZERO));
            if !began.refusing
                && let Ok(service) = TcpStream::connect(&service).await
            {
                forward(program, service, (mode, answers), began.epoch, reads).await;
            }
        });
    }
}

async fn forward(
    program: TcpStream,
    service: TcpStream,
    (mode, answers): (watch::Sender<Mode>, Answers),
    began: u64,
    reads: bool,
) {
    for stream in [&program, &service] {
        let _ = stream.set_nodelay(true);
        let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
    }
    let (from_program, to_program) = program.into_split();
    let (from_service, to_service) = service.into_split();
    let mut cut = mode.subscribe();
    let said = reads.then(Arc::<Mutex<Conversation>>::default);
    let way = |from_program| Way { mode: mode.clone(), from_program, said: said.clone() };
    tokio::select! {
        // `cut` is first: frozen bytes are lost even if [`Proxy::pass`] follows at once.
        biased;
        _ = cut.wait_for(|mode| mode.epoch != began) => {}
        () = way(true).copy(from_program, to_service, None) => {}
        () = way(false).copy(from_service, to_program, Some(answers)) => {}
    }
}

/// A direction of a connection.
struct Way {
    mode: watch::Sender<Mode>,
    from_program: bool,
    said: Option<Arc<Mutex<Conversation>>>,
}

impl Way {
    async fn copy(self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, kept: Option<Answers>) {
        let (mut buffer, mut unread) = (vec![0; 64 * 1024], Vec::new());
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            if let Some(kept) = &kept {
                kept.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
            if !self.is_open().await {
                return;
            }
            let passes = match &self.said {
                None => to.write_all(&buffer[..count]).await.is_ok(),
                Some(said) => {
                    unread.extend_from_slice(&buffer[..count]);
                    self.pass(said, &mut unread, &mut to).await
                }
            };
            if !passes {
                return;
            }
        }
    }

    /// Waits while this direction is frozen; returns false at the end of the proxy.
    async fn is_open(&self) -> bool {
        let frozen = |mode: &Mode| {
            if self.from_program { mode.to_service_frozen } else { mode.to_program_frozen }
        };
        self.mode.subscribe().wait_for(|mode| !frozen(mode)).await.is_ok()
    }

    /// Forwards whole frames, one after the other, up to the point.
    async fn pass(
        &self,
        said: &Mutex<Conversation>,
        unread: &mut Vec<u8>,
        to: &mut OwnedWriteHalf,
    ) -> bool {
        loop {
            let (verdict, length) = {
                let mut said = said.lock().unwrap();
                let Some(length) = said.frame(self.from_program, unread) else { return true };
                let Mode { point, passed, .. } = *self.mode.borrow();
                let confirmed = passed == Passed::Confirm;
                (said.judge(point, confirmed, self.from_program, &unread[..length]), length)
            };
            if verdict == Verdict::IsHeld {
                self.hold();
            }
            if !self.is_open().await || to.write_all(&unread[..length]).await.is_err() {
                return false;
            }
            match verdict {
                Verdict::Confirms => self.mode.send_modify(|mode| {
                    mode.passed = mode.passed.max(Passed::Confirm);
                }),
                Verdict::IsLast => self.hold(),
                Verdict::Passes | Verdict::IsHeld => {}
            }
            unread.drain(..length);
        }
    }

    fn hold(&self) {
        self.mode.send_modify(|mode| {
            (mode.to_service_frozen, mode.to_program_frozen) = (true, true);
            mode.passed = Passed::ThePoint;
        });
    }
}

/// Returns a port that forwards to `service` and replaces its product name by another of eight letters.
pub async fn renamed(service: String, name: [u8; 8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((program, _)) = listener.accept().await {
            let service = TcpStream::connect(&service).await.unwrap();
            let ((mut asks, mut hears), (mut answers, mut takes)) =
                (program.into_split(), service.into_split());
            tokio::spawn(async move { tokio::io::copy(&mut asks, &mut takes).await });
            tokio::spawn(async move {
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(count @ 1..) = answers.read(&mut buffer).await {
                    let bytes = &mut buffer[..count];
                    while let Some(at) = bytes.windows(8).position(|it| it == b"RabbitMQ") {
                        bytes[at..at + 8].copy_from_slice(&name);
                    }
                    if hears.write_all(bytes).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}
