//! A gate to the broker that can be shut: then bytes wait in both directions, as with a frozen broker.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};
use url::Url;

use super::Result;

/// Environment variables of a worker.
pub type Settings = Vec<(&'static str, String)>;

/// A local port that forwards to one broker.
pub struct Gate {
    address: SocketAddr,
    open: watch::Sender<bool>,
}

impl Gate {
    /// Opens a gate to the broker of an AMQP URL.
    async fn to(broker_url: &str) -> Result<Self> {
        let url = Url::parse(broker_url)?;
        let host = url.host_str().unwrap_or("localhost").to_owned();
        let broker = (host, url.port().unwrap_or(5672));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, open) = (listener.local_addr()?, watch::Sender::new(true));
        let is_open = open.subscribe();
        tokio::spawn(async move {
            while let Ok((program, _)) = listener.accept().await {
                let (broker, is_open) = (broker.clone(), is_open.clone());
                tokio::spawn(async move {
                    let Ok(broker) = TcpStream::connect(broker).await else { return };
                    _ = (program.set_nodelay(true), broker.set_nodelay(true));
                    let (from_program, to_program) = program.into_split();
                    let (from_broker, to_broker) = broker.into_split();
                    tokio::select! {
                        () = copy(from_program, to_broker, is_open.clone()) => {}
                        () = copy(from_broker, to_program, is_open) => {}
                    }
                });
            }
        });
        Ok(Self { address, open })
    }

    /// Opens a gate to the broker of `environment`, and returns the setting of a worker behind the gate.
    pub async fn before(environment: &[(&'static str, String)]) -> Result<(Self, Settings)> {
        const BROKER: &str = "OVERDUE_BROKER__URL";
        let url = environment.iter().find(|(name, _)| *name == BROKER);
        let url = url.map(|(_, url)| url.as_str()).ok_or("the stage names no broker")?;
        let gate = Self::to(url).await?;
        let settings = vec![(BROKER, gate.url(url)?)];
        Ok((gate, settings))
    }

    /// The broker's URL with the address of the gate.
    fn url(&self, broker_url: &str) -> Result<String> {
        let mut url = Url::parse(broker_url)?;
        url.set_ip_host(self.address.ip()).map_err(|()| "the broker's URL takes no address")?;
        url.set_port(Some(self.address.port())).map_err(|()| "the broker's URL takes no port")?;
        Ok(url.into())
    }

    /// Stops all bytes.
    pub fn shut(&self) {
        self.open.send_replace(false);
    }

    /// Forwards all bytes.
    pub fn open(&self) {
        self.open.send_replace(true);
    }
}

/// Copies bytes until one side closes.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut is_open: watch::Receiver<bool>,
) {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let Ok(count @ 1..) = from.read(&mut bytes).await else { return };
        if is_open.wait_for(|is_open| *is_open).await.is_err()
            || to.write_all(&bytes[..count]).await.is_err()
        {
            return;
        }
    }
}
