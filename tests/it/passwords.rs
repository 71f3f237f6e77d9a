//! Passwords change while a worker runs: it reads the files with its URLs again after a refused login.

use std::fs;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{WorkerProcess, World, until, users::PASSWORD};

/// The new password for each old one.
const NEXT: &str = "next";

impl World {
    /// A worker with users of its own, and its URLs in files.
    async fn with_url_files(&self) -> WorkerProcess {
        let [broker, management] = self.broker_user("management", Some([".*"; 3])).await;
        let database = self.database_user().await;
        let user = &self.schema;
        let grants = ["TABLES", "SEQUENCES", "FUNCTIONS"]
            .map(|what| format!("GRANT ALL ON ALL {what} IN SCHEMA {user} TO {user};"));
        self.sql(&grants.concat()).await;
        let mut worker = self.start(|command| {
            for (of, url) in
                [("broker", broker), ("management", management), ("database", database)]
            {
                let file = self.dir.path().join(format!("{of}.url"));
                fs::write(&file, url + "\n").unwrap();
                command.arg(format!("--{of}-url-file")).arg(file);
            }
        });
        worker.until_logged("worker ready").await;
        worker
    }

    fn write_next(&self, of: &str) {
        let file = self.dir.path().join(format!("{of}.url"));
        let url = fs::read_to_string(&file).unwrap();
        let escaped = PASSWORD.replace(' ', "%20");
        let next = url.replace(&escaped, NEXT).replace(":secret@", &format!(":{NEXT}@"));
        assert_ne!(url, next);
        fs::write(file, next).unwrap();
    }

    /// Changes the password at the broker and ends all sessions.
    async fn change_at_the_broker(&self) {
        let user = format!("{}-user", self.vhost);
        let body = json!({ "password": NEXT, "tags": "management" });
        self.services.call(None, Method::PUT, &["users", &user], body).await.unwrap();
        let path = ["connections", "username", &user];
        self.services.call(None, Method::DELETE, &path, Value::Null).await.unwrap();
    }

    async fn change_in_the_database(&self) {
        let user = &self.schema;
        self.sql(&format!("ALTER ROLE {user} PASSWORD '{NEXT}'")).await;
        let all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename =";
        self.sql(&format!("{all} '{user}'")).await;
    }
}

#[apply(world_test)]
async fn a_worker_goes_on_with_what_the_files_have_then() {
    let world = World::new().await;
    let mut worker = world.with_url_files().await;
    for of in ["broker", "management", "database"] {
        world.write_next(of);
    }
    world.change_in_the_database().await;
    world.change_at_the_broker().await;
    world.publish_orders("100ms", "o", 1, 0).await;
    world.until_closed(1).await;
    for of in ["broker", "management API", "database"] {
        worker.until_logged(&format!("trying that of=\"{of}\"")).await;
    }
    world.assert_invariants().await;
    worker.stopped().await;
}

/// The broker may refuse the login forever; the database for ten minutes, which are two seconds here.
#[apply(world_test)]
async fn refusals_of_the_database_end_the_worker_and_those_of_the_broker_do_not() {
    let world = World::new().await;
    let mut worker = world.with_url_files().await;
    world.change_at_the_broker().await;
    worker.until_logged("refuses the login of user").await;
    world.write_next("broker");
    let ready = async || worker.logged("worker ready");
    until("another session", ready, |sessions| *sessions == 2).await;
    world.change_in_the_database().await;
    assert_eq!(worker.ended().await.code(), Some(77), "{}", worker.log());
    assert_eq!(worker.logged("has refused every login for 2s"), 1, "{}", worker.log());
}
