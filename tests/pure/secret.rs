//! No password is printed: neither by `Debug` of its owner, nor by an error about it.

use overdue::internals::{
    broker::{BrokerAddress, Management},
    config::{SecretUrl, Settings},
    secret::Secret,
    store::Store,
};

const PASSWORD: &str = "s3cret";

fn assert_hidden(text: &str) {
    assert!(!text.contains(PASSWORD), "the password is in: {text}");
}

#[test]
fn a_secret_is_three_stars_and_gives_its_value_only_when_asked() {
    let secret = Secret::from(PASSWORD);
    assert_eq!(format!("{secret:?} {:?}", Some(Secret::new(17))), "*** Some(***)");
    assert_eq!(secret.expose(), PASSWORD);
}

#[test]
fn what_holds_a_password_can_be_shown() {
    let broker = format!("amqp://worker:{PASSWORD}@broker/shop");
    let management = format!("http://worker:{PASSWORD}@broker:15672");
    let database = format!("postgres://worker:{PASSWORD}@database/shop");
    for management in [None, Some(management.as_str())] {
        let address = BrokerAddress::parse(&broker, management).unwrap();
        let api = Management::new(&address).unwrap();
        assert_hidden(&format!("{address} {address:?} {api:?}"));
        assert!(format!("{api:?}").contains("worker"));
    }
    let store = Store::new(&database, "public", 2).unwrap();
    assert_hidden(&format!("{store:?}"));
    let defaults = format!("{:?}", overdue::Settings::default());
    assert!(defaults.contains("***") && !defaults.contains("guest"), "{defaults}");
    assert!(format!("{store:?}").contains("database `shop`"));
}

#[test]
fn settings_are_shown_without_their_passwords() {
    let mut settings = Settings::default();
    let cluster = format!("amqp://worker:{PASSWORD}@one:5672,two:5673/%2f?heartbeat=3");
    settings.broker.url = cluster.into();
    // The value is not a URL: all of it may be a password.
    settings.broker.management_url = Some(PASSWORD.to_owned().into());
    let database = format!("postgres://worker:{PASSWORD}@database/shop?password={PASSWORD}&a=b");
    settings.database.url = database.into();
    assert_hidden(&format!("{settings:?}"));
    let shown = toml::to_string(&settings).unwrap();
    assert_hidden(&shown);
    for url in [
        "\"amqp://worker:***@one:5672,two:5673/%2f?heartbeat=3\"",
        "management_url = \"***\"",
        "\"postgres://worker:***@database/shop?password=***&a=b\"",
    ] {
        assert!(shown.contains(url), "no {url} in: {shown}");
    }
}

/// A parser may end these passwords at `/`, another one at `@`.
#[test]
fn a_password_is_not_shown_whatever_is_in_it() {
    for begin in ["", "12", "x"] {
        for special in ["/", "?", "#", "@", "\\", "/?#@", ":", "%2F"] {
            for (scheme, end) in [
                ("postgres", "@database/shop"),
                ("postgres", "@one:5432,two/shop?sslmode=require"),
                ("amqp", "@broker/%2f"),
                ("http", "@broker:15672"),
            ] {
                let url = format!("{scheme}://worker:{begin}{special}{PASSWORD}{end}");
                let url = SecretUrl::from(url);
                assert!(url.has_password(), "{}", url.expose());
                assert_hidden(&serde_json::to_string(&url).unwrap());
            }
        }
    }
    for query in ["sslpassword=", "password=a%23", "password=a#", "password=a@", "a=b&p%61ssword="]
    {
        let url = SecretUrl::from(format!("postgres://worker@database/shop?{query}{PASSWORD}"));
        assert!(url.has_password(), "{}", url.expose());
        assert_hidden(&serde_json::to_string(&url).unwrap());
    }
}

/// These passwords work, as they do with the client alone.
#[test]
fn passwords_that_the_client_of_postgresql_takes_are_taken() {
    for password in ["/s3cret", "12?s3cret", "#s3cret", "12/s3cret?sslmode=disable&a=b"] {
        let url = format!("postgres://worker:{password}@database/shop?sslmode=require");
        let store = Store::new(&url, "public", 2).unwrap();
        assert_eq!(store.address(), "database:5432 database `shop`");
    }
}

#[test]
fn no_error_about_an_address_quotes_its_password() {
    let broker = |url: &str, management: Option<&str>| {
        BrokerAddress::parse(url, management).expect_err("not an address")
    };
    let good = "amqp://worker@broker";
    for (url, management) in [
        (format!("http://worker:{PASSWORD}@broker"), None),
        (format!("worker:{PASSWORD}@broker"), None),
        (format!("amqp://worker:{PASSWORD}@broker:99999"), None),
        (format!("amqp://worker:{PASSWORD}@broker:port/shop"), None),
        (format!("amqp://worker:{PASSWORD}@"), None),
        (format!("amqp://wor ker:{PASSWORD}@[::"), None),
        (good.to_owned(), Some(format!("ftp://worker:{PASSWORD}@broker"))),
        (good.to_owned(), Some(format!("worker:{PASSWORD}@broker"))),
        (good.to_owned(), Some(format!("http://worker:{PASSWORD}@broker:port"))),
        (good.to_owned(), Some(format!("http://worker:{PASSWORD}@"))),
        // Taken literally, these are a virtual host, a port or a path.
        (format!("amqp://worker:/{PASSWORD}@broker/%2f"), None),
        (format!("amqp://worker:12/{PASSWORD}@broker/%2f"), None),
        (format!("amqp://worker:12?{PASSWORD}@broker/%2f"), None),
        (format!("amqp://worker:#{PASSWORD}@broker/%2f"), None),
        (good.to_owned(), Some(format!("http://worker:/{PASSWORD}@broker"))),
        (good.to_owned(), Some(format!("http://worker:12?{PASSWORD}@broker"))),
        (good.to_owned(), Some(format!("http://worker:\\{PASSWORD}@broker"))),
    ] {
        let error = broker(&url, management.as_deref());
        assert_hidden(&format!("{error} {error:?}"));
    }
    for url in [
        format!("postgres://worker:{PASSWORD}@database:port/shop"),
        format!("mysql://worker:{PASSWORD}@database/shop"),
        format!("postgres://worker:{PASSWORD}@database/shop?ssl={PASSWORD}"),
        format!("host=database password={PASSWORD} port=none"),
        format!("password='{PASSWORD}"),
        format!("postgres://worker:pass@{PASSWORD}@database/shop"),
        format!("postgres://worker@database/shop?sslpassword={PASSWORD}"),
    ] {
        let error = Store::new(&url, "public", 2).expect_err("not a database URL");
        assert_hidden(&format!("{error} {error:?}"));
    }
}

/// The masked output is not used as the default.
#[test]
fn a_default_url_keeps_its_password() {
    let file = "[broker]\nstatistics_interval = \"7s\"\n[database]\nconnections = 7\n";
    let settings: Settings = toml::from_str(file).unwrap();
    assert_eq!(settings.broker.url.expose(), "amqp://guest:guest@127.0.0.1:5672/%2f");
}
