//! A TCP proxy between a program and a service, to break what is between them.

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

/// What the proxy does with connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mode {
    /// Bytes from the program stay here.
    to_service_frozen: bool,
    /// Bytes from the service stay here.
    to_program_frozen: bool,
    /// New connections are reset at once.
    refusing: bool,
    /// Connections that began in an earlier epoch are reset.
    epoch: u64,
    /// From where on everything is frozen.
    point: Option<Point>,
    passed: Passed,
}

/// How near the point is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Passed {
    #[default]
    Nothing,
    /// A copy was confirmed that [`Point::BeforeAckOfCopy`] waits for.
    Confirm,
    ThePoint,
}

/// Forwards to one service; connections stay open until they are [`Proxy::cut`].
pub struct Proxy {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
    attempts: Arc<AtomicUsize>,
    answers: Answers,
    accepting: JoinHandle<()>,
}

/// What a service has sent, over all connections.
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

    /// Where the program connects to.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// How many connections were begun, also those that were reset at once.
    pub fn attempts(&self) -> usize {
        self.attempts.load(Ordering::Relaxed)
    }

    /// How often the service has sent `word`.
    pub fn answered(&self, word: &str) -> usize {
        let answers = self.answers.lock().unwrap();
        answers.windows(word.len()).filter(|part| *part == word.as_bytes()).count()
    }

    /// Everything passes again: new connections, and the ones that were frozen.
    pub fn pass(&self) {
        self.change(|mode| *mode = Mode { epoch: mode.epoch, ..Mode::default() });
    }

    /// Nothing that the program sends reaches the service any more; the replies do.
    pub fn freeze_to_service(&self) {
        self.change(|mode| mode.to_service_frozen = true);
    }

    /// From this point on nothing passes any more, in either direction; the first time that it is reached, on any connection.
    pub fn hold_at(&self, point: Point) {
        self.change(|mode| mode.point = Some(point));
    }

    /// Waits until the point is reached.
    pub async fn until_held(&self) {
        let mut mode = self.mode.subscribe();
        awaited("the point", mode.wait_for(|mode| mode.passed == Passed::ThePoint)).await.unwrap();
    }

    /// Nothing that the service sends reaches the program any more; requests do.
    pub fn freeze_to_program(&self) {
        self.change(|mode| mode.to_program_frozen = true);
    }

    /// Resets every connection there is; new ones pass.
    pub fn cut(&self) {
        self.change(|mode| mode.epoch += 1);
    }

    /// Resets every connection there is, and every new one, until [`Proxy::pass`].
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
        // Now: what is cut or refused while it connects is an earlier epoch's.
        let began = *mode.borrow();
        tokio::spawn(async move {
            // A reset, not a polite close, when it ends early.
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
        // Cut first: what was frozen is lost then, also where everything passes again right after.
        biased;
        _ = cut.wait_for(|mode| mode.epoch != began) => {}
        () = way(true).copy(from_program, to_service, None) => {}
        () = way(false).copy(from_service, to_program, Some(answers)) => {}
    }
}

/// One direction of a connection.
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

    /// Waits while this direction is frozen; false at the end of the proxy.
    async fn is_open(&self) -> bool {
        let frozen = |mode: &Mode| {
            if self.from_program { mode.to_service_frozen } else { mode.to_program_frozen }
        };
        self.mode.subscribe().wait_for(|mode| !frozen(mode)).await.is_ok()
    }

    /// Passes the whole frames, one after the other, up to the point.
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

/// A port that leads to `service`, which there calls itself by another name of eight letters.
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
