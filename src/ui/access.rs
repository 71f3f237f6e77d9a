//! Access to the pages: a token is exchanged for a session.

use std::{
    collections::VecDeque,
    fmt::Write as _,
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, header};
use parking_lot::Mutex;
use subtle::ConstantTimeEq;

use crate::secret::Secret;

/// A session lasts for a night and the handover after it.
const SESSION: Duration = Duration::from_hours(12);
/// Enough for people on call with several browsers each. A new session ends the least recently used one.
const SESSIONS: usize = 32;
/// Characters of an operator's name.
const NAME: usize = 64;

/// The way to get a session.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    /// A token in a link that works once.
    Link(Secret),
    /// A token from a file, which people type.
    Typed(Secret),
}

impl Entry {
    /// A link with a random token.
    pub(crate) fn link() -> Self {
        Self::Link(Secret::new(random()))
    }
}

/// A browser that has shown the token.
#[derive(Clone, Debug)]
pub(super) struct Session {
    id: Secret,
    /// In every form: a page of another site does not know it.
    pub(super) csrf: Secret,
    /// The name that actions are recorded with.
    pub(super) operator: String,
    began: Instant,
    used: Instant,
}

pub(super) struct Access {
    /// Name of the cookie. Browsers send cookies of a host to all of its ports, so two programs behind one `localhost` need two
    /// names.
    cookie: String,
    is_typed: bool,
    state: Mutex<State>,
}

struct State {
    entry: Option<Entry>,
    sessions: VecDeque<Session>,
}

impl Access {
    pub(super) fn new(entry: Entry) -> Self {
        let mut cookie = format!("overdue_{}", random());
        cookie.truncate("overdue_".len() + 8);
        let is_typed = matches!(entry, Entry::Typed(_));
        let state = Mutex::new(State { entry: Some(entry), sessions: VecDeque::new() });
        Self { cookie, is_typed, state }
    }

    /// Whether people type the token, instead of following a link.
    pub(super) const fn is_typed(&self) -> bool {
        self.is_typed
    }

    /// Exchanges the token of a link for a session; the link works once.
    pub(super) fn follow(&self, token: &str, operator: &str) -> Option<Session> {
        let mut state = self.state.lock();
        let Some(Entry::Link(known)) = &state.entry else { return None };
        if !is_same(known, token) {
            return None;
        }
        state.entry = None;
        Some(state.begin(operator))
    }

    /// Exchanges a typed token for a session.
    pub(super) fn typed(&self, token: &str, operator: &str) -> Option<Session> {
        let mut state = self.state.lock();
        let Some(Entry::Typed(known)) = &state.entry else { return None };
        is_same(known, token).then(|| state.begin(operator))
    }

    /// The session of the request's cookie.
    pub(super) fn session(&self, headers: &HeaderMap) -> Option<Session> {
        let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|it| it.to_str().ok());
        let mut pairs = cookies.flat_map(|it| it.split(';')).filter_map(|it| it.split_once('='));
        let (_, id) = pairs.find(|(name, _)| name.trim() == self.cookie)?;
        let (now, mut state) = (Instant::now(), self.state.lock());
        state.sessions.retain(|session| now.duration_since(session.began) < SESSION);
        let session = state.sessions.iter_mut().find(|session| is_same(&session.id, id.trim()))?;
        session.used = now;
        Some(session.clone())
    }

    /// Whether the session is still valid.
    pub(super) fn knows(&self, session: &Session) -> bool {
        let state = self.state.lock();
        state.sessions.iter().any(|other| other.id == session.id && other.began.elapsed() < SESSION)
    }

    pub(super) fn leave(&self, session: &Session) {
        self.state.lock().sessions.retain(|other| other.id != session.id);
    }

    /// The `Set-Cookie` header that begins a session; `secure` if the request came by TLS.
    pub(super) fn given(&self, session: &Session, secure: bool) -> String {
        self.cookie_header(session.id.expose(), SESSION.as_secs(), secure)
    }

    /// The `Set-Cookie` header that ends a session.
    pub(super) fn taken(&self, secure: bool) -> String {
        self.cookie_header("", 0, secure)
    }

    fn cookie_header(&self, value: &str, max_age_s: u64, secure: bool) -> String {
        let secure = if secure { "; Secure" } else { "" };
        format!(
            "{}={value}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Strict{secure}",
            self.cookie
        )
    }
}

impl State {
    fn begin(&mut self, operator: &str) -> Session {
        let now = Instant::now();
        let session = Session {
            id: Secret::new(random()),
            csrf: Secret::new(random()),
            operator: operator.chars().filter(|c| !c.is_control()).take(NAME).collect(),
            began: now,
            used: now,
        };
        if self.sessions.len() == SESSIONS {
            let idle = self.sessions.iter().enumerate().min_by_key(|(_, session)| session.used);
            if let Some(idle) = idle.map(|(at, _)| at) {
                self.sessions.remove(idle);
            }
        }
        self.sessions.push_back(session.clone());
        session
    }
}

impl Session {
    /// Whether a form has the token of this session.
    pub(super) fn has_csrf(&self, token: &str) -> bool {
        is_same(&self.csrf, token)
    }
}

/// Compares in constant time; the length is not secret.
fn is_same(known: &Secret, token: &str) -> bool {
    known.expose().as_bytes().ct_eq(token.as_bytes()).into()
}

/// 256 bits of the cryptographic generator, as text.
fn random() -> String {
    let bytes = rand::random::<[u8; 32]>();
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a `String` never fails.
        let _written = write!(text, "{byte:02x}");
        text
    })
}
