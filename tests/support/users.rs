//! Users of the broker and of the database, with the rights that a test gives them.

use overdue::internals::broker::{BrokerAddress, Management};
use reqwest::Method;
use serde_json::json;
use url::Url;

use super::World;

/// Password of every broker user of a test; a URL must escape it.
pub const PASSWORD: &str = "pass word";

impl World {
    /// Creates a broker user, named after the virtual host and its tags, without permissions. The world deletes
    /// the user.
    pub async fn user(&self, tags: &str) -> String {
        let name = format!("{}-{}", self.vhost, tags.replace(',', "-"));
        self.user_named(&name, tags).await;
        name
    }

    /// Creates a broker user, or sets the password and tags of an existing one. The world deletes the user.
    pub async fn user_named(&self, name: &str, tags: &str) {
        let user = json!({ "password": PASSWORD, "tags": tags });
        self.services.call(None, Method::PUT, &["users", name], user).await.unwrap();
        self.deletes_user(name);
    }

    /// Gives a user permissions (configure, write, read) in this virtual host.
    pub async fn permit(&self, user: &str, [configure, write, read]: [&str; 3]) {
        let rights = json!({ "configure": configure, "write": write, "read": read });
        self.call(Method::PUT, "permissions", &[user], rights).await;
    }

    /// Lets a user publish to a topic exchange only with routing keys that match the pattern `write`.
    pub async fn permit_keys(&self, user: &str, exchange: &str, write: &str) {
        let rights = json!({ "exchange": exchange, "write": write, "read": ".*" });
        self.call(Method::PUT, "topic-permissions", &[user], rights).await;
    }

    /// Creates the user `<virtual host>-user`; returns its AMQP URI, and the URL of the management API with its credentials.
    pub async fn broker_user(&self, tags: &str, permissions: Option<[&str; 3]>) -> [String; 2] {
        let user = format!("{}-user", self.vhost);
        self.user_named(&user, tags).await;
        if let Some(permissions) = permissions {
            self.permit(&user, permissions).await;
        }
        self.urls_of(Some(&user))
    }

    /// Creates the user with permissions; returns its name.
    pub async fn user_with(&self, tags: &str, permissions: [&str; 3]) -> String {
        self.broker_user(tags, Some(permissions)).await;
        format!("{}-user", self.vhost)
    }

    /// AMQP URI and URL of the management API as `user`, or as administrator.
    pub fn urls_of(&self, user: Option<&str>) -> [String; 2] {
        [self.broker_url(), self.services.management.to_string()].map(|url| {
            let mut url = Url::parse(&url).unwrap();
            if let Some(user) = user {
                url.set_username(user).unwrap();
                url.set_password(Some(PASSWORD)).unwrap();
            }
            url.to_string()
        })
    }

    /// The broker's address as `user`, or as administrator.
    pub fn address_of(&self, user: Option<&str>) -> BrokerAddress {
        let [broker, management] = self.urls_of(user);
        let address = BrokerAddress::parse(&broker, Some(&management)).unwrap();
        address.with_timing(self.services.timing.clone())
    }

    /// The management API as `user`, as the program uses it.
    pub fn management_of(&self, user: &str) -> Management {
        self.services.management_of(&self.address_of(Some(user)))
    }

    /// Creates a database user, named like the schema, that may use the schema; returns its URL.
    pub async fn database_user(&self) -> String {
        let name = &self.schema;
        let sql = format!(
            "CREATE ROLE {name} LOGIN PASSWORD 'secret'; GRANT USAGE ON SCHEMA {name} TO {name}"
        );
        self.sql(&sql).await;
        let mut url = self.services.database.clone();
        url.set_username(name).unwrap();
        url.set_password(Some("secret")).unwrap();
        url.to_string()
    }
}
