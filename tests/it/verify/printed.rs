//! Each command that `verify` and `doctor` print for the broker, taken literally: the finding is gone, and no message is lost.

use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt, process::Command};

use reqwest::Method;
use serde_json::{Value, json};

use super::applied;
use crate::support::{
    Run, World, process::finish, python::interpreter, samples::TWO_TIMEOUTS, until,
};

/// Messages that wait, and are still there when a command was carried out.
const WAITING: usize = 3;

/// The command in what a finding says is to be done: all of it, or what follows a colon.
fn command(fix: &str) -> Option<&str> {
    let begins = |at: &usize| {
        ["overdue ", "rabbitmqadmin ", "rabbitmqctl "].iter().any(|it| fix[*at..].starts_with(it))
    };
    let colons = fix.match_indices(": ").map(|(at, colon)| at + colon.len());
    std::iter::once(0).chain(colons).find(begins).map(|at| &fix[at..])
}

/// The commands of a report, each once.
fn commands(report: &Value, of: impl Fn(&str) -> bool) -> Vec<String> {
    let findings = report["findings"].as_array().unwrap().iter();
    let findings = findings.filter(|it| of(it["rule"].as_str().unwrap()));
    let mut seen = BTreeSet::new();
    findings
        .filter_map(|it| command(it["fix"].as_str()?))
        .filter(|it| seen.insert(*it))
        .map(str::to_owned)
        .collect()
}

fn rules(report: &Value) -> BTreeSet<&str> {
    let findings = report["findings"].as_array().unwrap().iter();
    findings.map(|it| it["rule"].as_str().unwrap()).collect()
}

impl World {
    /// What a shell does with a command, at which somebody answers yes.
    pub(super) fn typed(&self, command: &str) -> Run {
        let bin = self.dir.path().join("bin");
        if !bin.exists() {
            fs::create_dir(&bin).unwrap();
            let yes = "case \"$1\" in apply|exit-plugin) set -- \"$@\" --yes;; esac";
            let program = env!("CARGO_BIN_EXE_overdue");
            let overdue = format!("#!/bin/sh\n{yes}\nexec '{program}' \"$@\"\n");
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/rabbitmq_tools.py");
            let python = interpreter();
            let tool =
                |name| format!("#!/bin/sh\nexec '{}' '{script}' {name} \"$@\"\n", python.display());
            for (name, text) in [
                ("overdue", overdue),
                ("rabbitmqadmin", tool("rabbitmqadmin")),
                ("rabbitmqctl", tool("rabbitmqctl")),
            ] {
                fs::write(bin.join(name), text).unwrap();
                fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
        let overdue = self.command(&[]);
        let environment = overdue.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(self.dir.path()).env_clear().envs(environment);
        let path = overdue.get_envs().find(|(name, _)| *name == "PATH").unwrap().1.unwrap();
        shell.env("PATH", format!("{}:{}", bin.display(), path.to_str().unwrap()));
        shell.env("MANAGEMENT_URL", self.services.management.as_str());
        finish(shell, None)
    }

    fn verified(&self) -> Value {
        self.overdue(&["verify", "-o", "json"]).json()
    }

    /// Types what `verify` says of these rules, each command once, until it says nothing of them any more.
    async fn cured(&self, expected: &[&str]) {
        let expected: BTreeSet<&str> = expected.iter().copied().collect();
        let look = async || self.verified();
        let report = until("the findings", look, |it| rules(it).is_superset(&expected)).await;
        let commands = commands(&report, |rule| expected.contains(rule));
        assert!(!commands.is_empty(), "{report:#}");
        for command in &commands {
            self.typed(command).exits(0);
        }
        let look = async || {
            let report = self.verified();
            // A queue is retired by one `apply` and deleted by the next that knows it to be empty.
            if rules(&report).contains("retired-queue") {
                self.typed("overdue apply");
            }
            report
        };
        until("no finding", look, |it| rules(it).is_disjoint(&expected)).await;
    }

    /// Messages that wait since before anything was found.
    async fn with_waiting(self) -> Self {
        self.publish_to("orders.in", "30m.unpaid", WAITING).await;
        self
    }

    async fn assert_nothing_lost(&self) {
        let queues = self.management().observe().await.unwrap().objects.queues;
        let mut found = 0;
        for queue in queues.keys().filter(|queue| queue.starts_with("orders.")) {
            found += self.take(queue).await.len();
        }
        assert_eq!(found, WAITING);
    }
}

async fn waiting() -> World {
    applied().await.with_waiting().await
}

#[apply(world_test)]
async fn objects() {
    let world = waiting().await;
    world.unbind("orders.dlx", "orders.unpaid", "#.unpaid").await;
    world.delete("queues", "orders.delay.3s").await;
    world.delete("exchanges", "orders.events").await;
    world.delete("queues", "orders.delay.1s").await;
    let arguments = json!({
        "x-queue-type": "quorum", "x-message-ttl": 2_000, "x-dead-letter-exchange": "orders.dlx",
    });
    world.queue("orders.delay.1s", arguments).await;
    world.bind("orders.in", "orders.delay.1s", "1s.*").await;
    world.bind("orders.owned", "orders.delay.1s", "delay/1s").await;
    world.cured(&["missing-binding", "missing-queue", "missing-exchange", "changed-queue"]).await;
    world.assert_nothing_lost().await;
}

#[apply(world_test)]
async fn an_exchange() {
    let world = waiting().await;
    world.delete("exchanges", "orders.dlx").await;
    world.exchange("orders.dlx", "topic", json!({})).await;
    world.cured(&["changed-exchange"]).await;
    let report = world.verified();
    assert_eq!(report["ok"], true, "{report:#}");
    world.assert_nothing_lost().await;
}

/// The names are no words for a shell, and one looks like an option.
#[apply(world_test)]
async fn bindings() {
    let world = waiting().await;
    let audit = "it's $(touch audit); \"x\" `y`";
    world.queue(audit, json!({})).await;
    world.bind("orders.dlx", audit, "#.'$HOME'").await;
    let headers =
        json!({ "routing_key": "", "arguments": { "x-match": "any", "n": 1, "it's": "a b" } });
    world.call(Method::POST, "bindings", &["e", "orders.park", "q", audit], headers).await;
    world.bind("orders.in", "orders.unpaid", "now.unpaid").await;
    world.exchange("--legacy", "topic", json!({})).await;
    world.bind("--legacy", "orders.unpaid", "*").await;
    world.exchange("hides", "fanout", json!({})).await;
    world.lead("orders.in", "hides", "#").await;
    world.exchange("copy", "fanout", json!({})).await;
    world.lead("orders.dlx", "copy", "#.unshipped").await;
    world.bind("copy", "orders.unpaid", "").await;
    let rules = [
        "foreign-subscriber",
        "foreign-publisher",
        "additional-binding",
        "alternate-exchange",
        "routing-overlap",
    ];
    world.cured(&rules).await;
    assert_eq!(world.verified()["ok"], true);
    world.assert_nothing_lost().await;
}

#[apply(world_test)]
async fn policies() {
    let world = waiting().await;
    let (policy, operator) = ("it's short", "$(operator) \"x\"");
    world.policy("policies", policy, r"^orders\.delay", json!({ "message-ttl": 3_000 })).await;
    let limit = json!({ "max-length": 1_000 });
    world.policy("operator-policies", operator, r"^orders\.unpaid", limit).await;
    world.until_policy("orders.delay.30m", policy).await;
    world.until_policy("orders.unpaid", operator).await;
    world.cured(&["policy"]).await;
    world.assert_nothing_lost().await;
}

#[apply(world_test)]
async fn an_early_binding() {
    let text = format!("{TWO_TIMEOUTS}\n[compat.x-delay]\nexchange = \"old 'reminders'\"\n");
    let world = World::applied(&text).await.with_waiting().await;
    world.queue("mails", json!({})).await;
    world.bind("old 'reminders'", "mails", "welcome").await;
    world.cured(&["early-binding"]).await;
    world.assert_nothing_lost().await;
}

/// Somebody has applied another file in between.
#[apply(world_test)]
async fn what_is_retired() {
    let world = waiting().await;
    let other = TWO_TIMEOUTS.replace("\"3s\", ", "\"3s\", \"5s\", ");
    world.apply(&overdue::internals::topology::Topology::parse(&other).unwrap()).await;
    world.cured(&["retired-queue"]).await;
    world.assert_nothing_lost().await;
}

#[apply(world_test)]
async fn doctor() {
    let world = waiting().await;
    world.unbind("orders.dlx", "orders.unpaid", "#.unpaid").await;
    let applied = |report: &Value| {
        let findings = report["checks"].as_array().unwrap().clone();
        findings.into_iter().find(|it| it["rule"] == "applied").unwrap()
    };
    let finding = applied(&world.overdue(&["doctor", "-o", "json"]).json());
    world.typed(command(finding["fix"].as_str().unwrap()).unwrap()).exits(0);
    let finding = applied(&world.overdue(&["doctor", "-o", "json"]).json());
    assert_eq!(finding["severity"], "ok", "{finding}");

    let other = format!("{}'s other", world.vhost);
    let url =
        world.broker_url().replace(&world.vhost, &other.replace('\'', "%27").replace(' ', "%20"));
    let look = || {
        let run = world.overdue_with(&["doctor", "-o", "json"], &[("OVERDUE_BROKER__URL", &url)]);
        let checks = run.json()["checks"].as_array().unwrap().clone();
        checks.into_iter().find(|it| it["rule"] == "virtual-host").unwrap()
    };
    world.typed(command(look()["fix"].as_str().unwrap()).unwrap()).exits(0);
    let found = look();
    world.services.forget("vhosts", &other).await.unwrap();
    assert_eq!(found["severity"], "ok", "{found}");
    world.assert_nothing_lost().await;
}
