//! TLS to all three services: certificates that are right, from another CA, expired and for another host, and the error for each.

use overdue::internals::{
    broker::{BrokerAddress, Link, Management},
    store::Store,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use crate::support::{
    Services,
    tls::{Begins, Ca, Shown, TlsServer},
};

const ALL: [Shown; 4] = [Shown::Right, Shown::OtherCa, Shown::Expired, Shown::OtherHost];

/// The expected error for a certificate if a CA is named.
fn verdict(shown: Shown) -> Option<&'static str> {
    match shown {
        Shown::Right => None,
        Shown::OtherCa => Some("its certificate is signed by no CA that is trusted here"),
        Shown::Expired => Some("its certificate has expired"),
        Shown::OtherHost => Some("its certificate is for another host name"),
    }
}

#[track_caller]
fn expect<T>(shown: Shown, result: Result<T, String>) {
    match (verdict(shown), result) {
        (None, Ok(_)) => {}
        (Some(text), Err(error)) => assert!(error.contains(text), "{shown:?}: {error}"),
        (_, result) => panic!("{shown:?}: {:?}", result.map(drop)),
    }
}

fn amqps(services: &Services, port: u16, parameters: &str) -> String {
    let url = services.broker_url("/", Some(port));
    let url = url.replace("amqp://", "amqps://").replace("127.0.0.1", "localhost");
    format!("{url}?{parameters}")
}

fn https(server: &TlsServer, parameters: &str) -> String {
    format!("https://admin:admin@localhost:{}?{parameters}", server.port)
}

fn postgres(services: &Services, server: &TlsServer, parameters: &str) -> String {
    let url = services.database_url(Some(server.port)).replace("127.0.0.1", "localhost");
    // The URL has only the test's TLS parameters.
    let plain = url.split('?').next().unwrap_or_default();
    format!("{plain}?{parameters}")
}

async fn connects(url: &str, management: &str) -> Result<(), String> {
    let address = BrokerAddress::parse(url, Some(management)).map_err(|error| error.to_string())?;
    let link = Link::open(&address, "test: TLS").await.map_err(|error| error.to_string())?;
    link.close().await;
    Ok(())
}

#[apply(world_test)]
async fn amqp() {
    let (services, ca) = (Services::main(), Ca::new());
    for shown in ALL {
        let server =
            TlsServer::before(services.broker_socket(), Begins::AtOnce, &ca, shown, None).await;
        let trusting = amqps(&services, server.port, &format!("cacertfile={}", ca.file()));
        expect(shown, connects(&trusting, "http://localhost").await);
        // For this machine, without a named CA, only encryption is required.
        let unnamed = amqps(&services, server.port, "");
        connects(&unnamed, "http://localhost").await.unwrap();
        let strict = amqps(&services, server.port, "verify=verify_peer");
        let refused = connects(&strict, "http://localhost").await.unwrap_err();
        assert!(
            refused.contains("no TLS connection to the broker at amqps://localhost"),
            "{refused}"
        );
        assert!(refused.contains("its certificate"), "{refused}");
        let careless = format!("{trusting}&verify=verify_none");
        connects(&careless, "http://localhost").await.unwrap();
    }
}

#[apply(world_test)]
async fn a_client_certificate() {
    let (services, ca) = (Services::main(), Ca::new());
    let wants = Some(&ca);
    let socket = services.broker_socket();
    let server = TlsServer::before(socket, Begins::AtOnce, &ca, Shown::Right, wants).await;
    let [certificate, key] = ca.client();
    let strangers = Ca::new();
    let [stranger, stranger_key] = strangers.client();
    let with = |parameters: String| amqps(&services, server.port, &parameters);
    let ours = format!("cacertfile={}&certfile={certificate}&keyfile={key}", ca.file());
    connects(&with(ours), "http://localhost").await.unwrap();
    for (parameters, said) in [
        (
            format!("cacertfile={}", ca.file()),
            "it wants a client certificate: set certfile and keyfile",
        ),
        (format!("certfile={certificate}"), "certfile is set and keyfile is not"),
        (
            format!("certfile={certificate}&keyfile={stranger_key}"),
            "certfile and keyfile do not fit",
        ),
        (
            format!("certfile={stranger}&keyfile={stranger_key}"),
            "it refuses our client certificate",
        ),
        (format!("certfile={key}&keyfile={key}"), "there is no certificate in it"),
        (format!("cacertfile={key}"), "there is no certificate in it"),
        ("cacertfile=/nowhere.pem".to_owned(), "cannot read cacertfile /nowhere.pem"),
        ("verify=maybe".to_owned(), "verify is `maybe`: write verify_peer or verify_none"),
    ] {
        let refused = connects(&with(parameters), "http://localhost").await.unwrap_err();
        assert!(refused.contains(said), "{refused}");
    }
}

#[apply(world_test)]
async fn management_api() {
    let (services, ca) = (Services::main(), Ca::new());
    for shown in ALL {
        let socket = services.management_socket();
        let server = TlsServer::before(socket, Begins::AtOnce, &ca, shown, None).await;
        let asks = async |parameters: &str| {
            let url = https(&server, parameters);
            let address = BrokerAddress::parse("amqp://localhost", Some(&url)).unwrap();
            let management = Management::new(&address).map_err(|error| error.to_string())?;
            management.queue_names("orders").await.map_err(|error| error.to_string())
        };
        expect(shown, asks(&format!("cacertfile={}", ca.file())).await);
        asks("").await.unwrap();
        let refused = asks("verify=verify_peer").await.unwrap_err();
        assert!(refused.contains("its certificate"), "{refused}");
    }
}

#[apply(world_test)]
async fn database() {
    let (services, ca) = (Services::main(), Ca::new());
    for shown in ALL {
        let socket = services.database_socket();
        let server = TlsServer::before(socket, Begins::AsPostgresql, &ca, shown, None).await;
        let asks = async |parameters: &str| {
            let store = Store::new(&postgres(&services, &server, parameters), "public", 2);
            let store = store.map_err(|error| error.to_string())?;
            store.ping().await.map_err(|error| error.to_string())
        };
        let ca = format!("&sslrootcert={}", ca.file());
        for mode in ["verify-full", "require", "prefer"] {
            expect(shown, asks(&format!("sslmode={mode}{ca}")).await);
        }
        let chain = asks(&format!("sslmode=verify-ca{ca}")).await;
        match shown {
            // This mode does not check the host.
            Shown::OtherHost => chain.unwrap(),
            _ => expect(shown, chain),
        }
        asks("sslmode=require").await.unwrap();
        asks("").await.unwrap();
        let refused = asks("sslmode=verify-full").await.unwrap_err();
        assert!(refused.contains("no TLS connection to PostgreSQL at localhost"), "{refused}");
    }
    let (socket, begins) = (services.database_socket(), Begins::DirectlyAsPostgresql);
    let server = TlsServer::before(socket, begins, &ca, Shown::Right, None).await;
    let direct = format!("sslmode=verify-full&sslnegotiation=direct&sslrootcert={}", ca.file());
    let store = Store::new(&postgres(&services, &server, &direct), "public", 2).unwrap();
    store.ping().await.unwrap();
    // The machine's CAs have not signed this certificate.
    let system = "sslrootcert=system&sslnegotiation=direct";
    let store = Store::new(&postgres(&services, &server, system), "public", 2).unwrap();
    let refused = store.ping().await.unwrap_err().to_string();
    assert!(refused.contains("no TLS connection to PostgreSQL at localhost"), "{refused}");
    for (url, said) in [
        ("postgres://u@h/d?schema=shop", "leave it out, and set database.search_path"),
        ("postgres://u@h/d?pgbouncer=true", "how a pooler has to be set up is in docs/settings.md"),
        ("postgres://u@h/d?connection_limit=1", "leave it out, and set database.connections"),
        ("postgres://u@h/d?statement_timeout=5s", "options=-c%20statement_timeout%3D5s"),
        ("postgres://u@h/d?ssl=true", "`ssl` is not known: write sslmode=verify-full"),
        ("postgres://u@h/d?sslmode=strict", "sslmode is `strict`: it can be disable"),
        ("postgres://u@h/d?sslmode=verify-ca", "name a CA of your own with sslrootcert"),
        ("postgres://u@localhost/d?sslmode=verify-ca", "name a CA of your own with sslrootcert"),
        ("host=h user=u sslmode=verify-full", "it does not begin with postgres://"),
    ] {
        let refused = Store::new(url, "public", 2).unwrap_err();
        assert!(refused.to_string().contains(said), "{refused}");
    }
}

/// An attacker answers that PostgreSQL has no TLS: the client sends no user and no password in plain text, unless the URL allows
/// it.
#[apply(world_test)]
async fn no_plain_text_that_nobody_has_asked_for() {
    let asks = async |credentials: &str, host: &str, parameters: &str| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let url =
            format!("postgres://{credentials}@{host}:{port}/d?hostaddr=127.0.0.1{parameters}");
        let store = Store::new(&url, "public", 2).unwrap();
        let middle = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 8];
            stream.read_exact(&mut request).await.unwrap();
            // SSLRequest; with another answer than `S` the client decides.
            assert_eq!(request[4..], [0x04, 0xD2, 0x16, 0x2F]);
            stream.write_all(b"N").await.unwrap();
            stream.read(&mut [0; 64]).await.unwrap_or(0)
        };
        tokio::join!(async { store.ping().await.unwrap_err().to_string() }, middle)
    };
    for (credentials, host, parameters) in [
        ("u:p", "db.example.com", ""),
        ("u:p", "127.db.example.com", ""),
        ("u:p", "db.example.com", "&sslmode=require"),
        ("u:a?b", "db.example.com", "&sslmode=require"),
        ("u:p", "localhost", "&sslmode=require"),
        ("u:a?b", "localhost", "&sslmode=require"),
    ] {
        let (refused, bytes) = asks(credentials, host, parameters).await;
        assert_eq!(bytes, 0, "{credentials} {host} {parameters}: {refused}");
        assert!(refused.contains("it offers none: set ssl = on there"), "{refused}");
    }
    for (host, parameters) in [("localhost", ""), ("db.example.com", "&sslmode=prefer")] {
        assert!(asks("u:p", host, parameters).await.1 > 0, "{host} {parameters}");
    }
}
