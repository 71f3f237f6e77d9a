//! `overdue ui`: a web page for people on call, on this machine only.

use std::{
    fs,
    io::{self, IsTerminal, Write},
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use clap::Args;
use tempfile::NamedTempFile;

use super::{
    exit::Failure,
    output::{print, report},
    setup::{self, Services},
};
use crate::{
    config::Settings,
    secret::Secret,
    ui::{Bound, Entry, Ui},
};

/// The port after the worker's.
const PORT: u16 = 9633;
/// The fewest characters of a token.
const TOKEN_CHARACTERS: usize = 20;

/// Serve the web page for people on call, until Ctrl-C
///
/// The page is for this machine alone, unless --listen and --token-file are set.
#[derive(Debug, Args)]
pub(super) struct UiArgs {
    /// Address of the page [default: 127.0.0.1:9633]; an address for other machines needs --token-file
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// A file with a token that people log in with, instead of a link that works once
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print the link and open no browser
    #[arg(long)]
    no_open: bool,
}

impl UiArgs {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let services = Arc::new(Services::open(settings)?);
        let listen = self.listen.unwrap_or((Ipv4Addr::LOCALHOST, PORT).into());
        let entry = match &self.token_file {
            Some(file) => Entry::Typed(token(file)?),
            None if listen.ip().is_loopback() => Entry::link(),
            None => {
                return Err(Failure::usage(format!(
                    "{listen} is open to other machines, and whoever has the link may act as you: add --token-file FILE, with a \
                     token that people log in with, or listen on 127.0.0.1 and come by a tunnel (docs/ui.md)"
                )));
            }
        };
        let stop = setup::stop_on_signals()?;
        let bound = Bound::to(listen).await.map_err(|error| taken(listen, &error))?;
        let opened = self.announce(bound.address(), &entry)?;
        let ui = Ui::new(settings.clone(), services, entry, operator());
        bound.serve(Arc::new(ui), &stop).await;
        drop(opened);
        Ok(())
    }

    /// Prints the address, and opens it in a browser. The returned file must be kept while the page is served.
    fn announce(
        &self,
        address: SocketAddr,
        entry: &Entry,
    ) -> Result<Option<NamedTempFile>, Failure> {
        let link = match entry {
            Entry::Link(token) => format!("http://{address}/login?token={}", token.expose()),
            Entry::Typed(_) => format!("http://{address}/"),
        };
        print(&link)?;
        if matches!(entry, Entry::Link(_)) {
            report("the link is good once; Ctrl-C ends the page");
        }
        let is_seen = !self.no_open && io::stdout().is_terminal() && has_screen();
        Ok(if is_seen { open(&link) } else { None })
    }
}

fn token(file: &Path) -> Result<Secret, Failure> {
    let shown = file.display();
    let text = fs::read_to_string(file).map_err(|error| {
        Failure::configuration(format!("cannot read --token-file {shown}: {error}"))
    })?;
    match text.trim() {
        token if token.chars().count() >= TOKEN_CHARACTERS && token.lines().count() == 1 => {
            Ok(Secret::from(token))
        }
        _ => Err(Failure::configuration(format!(
            "--token-file {shown} has to be one line of {TOKEN_CHARACTERS} characters or more, e.g. of `openssl rand -hex 32`"
        ))),
    }
}

fn taken(listen: SocketAddr, error: &io::Error) -> Failure {
    let why = match error.kind() {
        io::ErrorKind::AddrInUse => "another process listens there".to_owned(),
        _ => error.to_string(),
    };
    let port = listen.port().saturating_add(1);
    Failure::failed(format!(
        "cannot listen on {listen}: {why}; name another port: --listen {}",
        SocketAddr::new(listen.ip(), port)
    ))
}

/// Whether there is a screen: without one, a browser in the terminal would hide the link.
fn has_screen() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    cfg!(target_os = "macos") || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")
}

/// Opens the link from a file that only the user can read, because every user can list the arguments of processes. Without a
/// browser the link is still on the screen.
fn open(link: &str) -> Option<NamedTempFile> {
    let mut file =
        tempfile::Builder::new().prefix("overdue-ui-").suffix(".html").tempfile().ok()?;
    write!(
        file,
        "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0; url={link}\">"
    )
    .ok()?;
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(opener);
    command.arg(file.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().ok()?;
    Some(file)
}

/// The user who has started the command.
fn operator() -> String {
    let named = ["USER", "LOGNAME"].into_iter().find_map(std::env::var_os);
    named.and_then(|name| name.into_string().ok()).unwrap_or_else(|| "unnamed".to_owned())
}
