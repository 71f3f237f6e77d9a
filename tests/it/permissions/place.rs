//! A test's own virtual host, and users that have rights in it. Both go with it.

use std::{collections::BTreeSet, sync::Mutex, thread};

use overdue::{
    broker::{BrokerAddress, Management, TopologyChange},
    permissions::{Request, Right, Role},
    topology::Topology,
};
use reqwest::Method;
use serde_json::{Value, json};
use url::Url;

/// Every user of these tests has it.
const PASSWORD: &str = "rights";

/// A virtual host with a random name.
pub(crate) struct Place {
    /// Its name.
    pub(crate) vhost: String,
    users: Mutex<BTreeSet<String>>,
}

impl Place {
    /// An empty virtual host.
    pub(crate) async fn new() -> Self {
        let vhost = format!("rights_{:016x}", rand::random::<u64>());
        let place = Self { vhost, users: Mutex::default() };
        let created = place.admin(Method::PUT, &["vhosts", &place.vhost], Value::Null).await;
        if let Err(why) = created {
            panic!("this test needs RabbitMQ: {why}\n  start the services with: make services");
        }
        place
    }

    /// With the topology applied.
    pub(crate) async fn of(topology: &Topology) -> Self {
        let place = Self::new().await;
        let management = place.management(None);
        TopologyChange::new(&management, topology).apply().await.unwrap();
        place
    }

    /// A user with the rights and the tag of `role`, as they would be printed.
    pub(crate) async fn login(&self, role: &Role, request: &Request) -> String {
        let user = request.user(role);
        let tags: Vec<&str> = role.tag.iter().map(|tag| tag.name).collect();
        self.user(&user, &tags).await;
        let expression = |right| role.expression(right);
        let rights = json!({
            "configure": expression(Right::Configure),
            "write": expression(Right::Write),
            "read": expression(Right::Read),
        });
        let path = ["permissions", &self.vhost, &user];
        self.admin(Method::PUT, &path, rights).await.unwrap();
        user
    }

    /// A user with these tags and the password that the tests know.
    pub(crate) async fn user(&self, name: &str, tags: &[&str]) {
        let body = json!({ "password": PASSWORD, "tags": tags.join(",") });
        self.admin(Method::PUT, &["users", name], body).await.unwrap();
        self.users.lock().unwrap().insert(name.to_owned());
    }

    /// The address as `user`, or as administrator.
    pub(crate) fn address(&self, user: Option<&str>) -> BrokerAddress {
        let mut urls = [broker(), management()];
        for url in &mut urls {
            if let Some(user) = user {
                url.set_username(user).unwrap();
                url.set_password(Some(PASSWORD)).unwrap();
            }
        }
        urls[0].set_path(&format!("/{}", self.vhost));
        BrokerAddress::parse(urls[0].as_str(), Some(urls[1].as_str())).unwrap()
    }

    /// The management API as the program uses it.
    pub(crate) fn management(&self, user: Option<&str>) -> Management {
        crate::support::Services::main().management_of(&self.address(user))
    }

    /// A call of the management API as administrator.
    pub(crate) async fn admin(
        &self,
        how: Method,
        path: &[&str],
        body: Value,
    ) -> Result<Value, String> {
        call(None, how, path, body).await
    }
}

/// A call of the management API; the answer, or status and text of a refusal.
pub(crate) async fn call(
    user: Option<&str>,
    how: Method,
    path: &[&str],
    body: Value,
) -> Result<Value, String> {
    let mut url = management();
    let (name, password) = match user {
        Some(user) => (user.to_owned(), PASSWORD.to_owned()),
        None => (url.username().to_owned(), url.password().unwrap_or_default().to_owned()),
    };
    url.set_username("").unwrap();
    url.set_password(None).unwrap();
    url.path_segments_mut().unwrap().pop_if_empty().push("api").extend(path);
    let request = reqwest::Client::new().request(how, url).basic_auth(name, Some(password));
    let answer = request.json(&body).send().await.map_err(|error| format!("{error:?}"))?;
    let status = answer.status();
    let text = answer.text().await.map_err(|error| error.to_string())?;
    if !status.is_success() {
        return Err(format!("{status}: {text}"));
    }
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

fn broker() -> Url {
    setting("OVERDUE_BROKER__URL", "amqp://admin:admin@127.0.0.1:28672/%2f")
}

fn management() -> Url {
    setting("OVERDUE_BROKER__MANAGEMENT_URL", "http://admin:admin@127.0.0.1:28673")
}

#[expect(clippy::disallowed_methods, reason = "a test's settings are what the shell has")]
fn setting(name: &str, default: &str) -> Url {
    std::env::var(name).unwrap_or_else(|_| default.to_owned()).parse().unwrap()
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut gone = vec![("vhosts", self.vhost.clone())];
        let users = std::mem::take(&mut *self.users.lock().unwrap());
        gone.extend(users.into_iter().map(|user| ("users", user)));
        // A runtime of its own: this may run while the test's runtime unwinds.
        let deleting = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                for (kind, name) in &gone {
                    if let Err(why) = call(None, Method::DELETE, &[kind, name], Value::Null).await {
                        eprintln!("left behind: {kind} {name}: {why}");
                    }
                }
            });
        });
        let _panicked = deleting.join();
    }
}
