//! `overdue ui` as a process, and a client that speaks HTTP to it.

use std::{fs::File, process::Stdio};

use reqwest::{
    Client, Method, RequestBuilder, Response, StatusCode,
    header::{COOKIE, ORIGIN, SET_COOKIE},
    redirect::Policy,
};

use super::{WorkerProcess, World, until};

/// A page server; drop kills it.
pub struct UiProcess {
    pub process: WorkerProcess,
    /// Standard output so far.
    pub printed: String,
    /// `http://127.0.0.1:<port>`.
    pub base: String,
}

/// A client with a session.
pub struct Visitor {
    client: Client,
    /// URL of the server.
    pub base: String,
    /// `name=value`, as the browser sends it.
    pub cookie: String,
    /// Token of the forms of this session.
    pub csrf: String,
}

impl World {
    /// Starts `overdue ui` on a free port, with more arguments and environment variables.
    pub async fn ui_with(&self, more: &[&str], environment: &[(&str, &str)]) -> UiProcess {
        let arguments = [&["ui", "--listen", "127.0.0.1:0", "--no-open"], more].concat();
        let mut command = self.command(&arguments);
        command.envs(environment.iter().copied());
        let out = self.dir.path().join(format!("ui-{:08x}", rand::random::<u32>()));
        command.stdout(Stdio::from(File::create(&out).unwrap()));
        let mut process = self.spawn_with_output(command);
        let read = async || (std::fs::read_to_string(&out).unwrap(), process.is_running());
        let is_there = |(text, runs): &(String, bool)| text.ends_with('\n') || !runs;
        let (printed, _) = until("the link", read, is_there).await;
        assert!(!printed.is_empty(), "it ended");
        let base = printed.trim().split("/login").next().unwrap().trim_end_matches('/').to_owned();
        UiProcess { process, printed, base }
    }

    /// Starts `overdue ui` on a free port.
    pub async fn ui(&self) -> UiProcess {
        self.ui_with(&[], &[]).await
    }
}

/// A client that follows no redirect and stores no cookie.
pub fn plain_client() -> Client {
    Client::builder().redirect(Policy::none()).build().unwrap()
}

impl UiProcess {
    /// The link that can be used once.
    pub fn link(&self) -> &str {
        self.printed.trim()
    }

    /// Follows the link.
    pub async fn visitor(&self) -> Visitor {
        let welcome = plain_client().get(self.link()).send().await.unwrap();
        assert_eq!(welcome.status(), StatusCode::OK);
        Visitor::of(&self.base, &welcome).await
    }

    /// Sends a login form with a token.
    pub async fn login(&self, token: &str, name: &str) -> Response {
        let mut body = url::form_urlencoded::Serializer::new(String::new());
        let body = body.append_pair("token", token).append_pair("operator", name).finish();
        let request =
            plain_client().post(format!("{}/login", self.base)).header(ORIGIN, &self.base);
        request.body(body).send().await.unwrap()
    }
}

impl Visitor {
    /// The visitor whose session this answer set.
    pub async fn of(base: &str, welcome: &Response) -> Self {
        let client = plain_client();
        let set = welcome.headers()[SET_COOKIE].to_str().unwrap();
        let cookie = set.split(';').next().unwrap().to_owned();
        let mut visitor = Self { client, base: base.to_owned(), cookie, csrf: String::new() };
        let (_, page) = visitor.page("/").await;
        let (_, rest) = page.split_once("name=\"csrf\" value=\"").expect("a form");
        rest.split('"').next().unwrap().clone_into(&mut visitor.csrf);
        visitor
    }

    /// A request with the cookie.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base)).header(COOKIE, &self.cookie)
    }

    /// A page and its status.
    pub async fn page(&self, path: &str) -> (StatusCode, String) {
        let response = self.request(Method::GET, path).send().await.unwrap();
        (response.status(), response.text().await.unwrap())
    }

    /// Sends a form as a browser does.
    pub fn form(&self, path: &str, fields: &[(&str, &str)]) -> RequestBuilder {
        let mut body = url::form_urlencoded::Serializer::new(String::new());
        body.append_pair("csrf", &self.csrf).extend_pairs(fields);
        self.post(path, body.finish())
    }

    /// Sends any body from one of the server's own pages.
    pub fn post(&self, path: &str, body: impl Into<reqwest::Body>) -> RequestBuilder {
        self.request(Method::POST, path)
            .header(ORIGIN, &self.base)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(body)
    }
}
