//! docs/operations.md and its deployments: units and manifests name existing commands, flags and files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use serde_json::Value;

use crate::support::{Folder, overdue, process::finish, python::manifests};

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

/// Asserts that the command's help names every flag of the arguments; returns the command.
fn check_arguments(arguments: &[&str]) -> Vec<String> {
    // The words that do not begin with `-` and are not the value of a flag.
    let mut commands = Vec::new();
    let mut before = "";
    for argument in arguments {
        let is_value =
            before.starts_with("--") && (before.ends_with("-file") || before == "--config");
        if !argument.starts_with('-') && !is_value {
            commands.push((*argument).to_owned());
        }
        before = argument;
    }
    let mut asked: Vec<&str> = commands.iter().map(String::as_str).collect();
    asked.push("--help");
    let help = finish(overdue(&asked), None).exits(0);
    for flag in arguments.iter().filter(|argument| argument.starts_with("--")) {
        assert!(help.stdout.contains(flag), "{arguments:?}: there is no {flag}");
    }
    commands
}

/// Every container of the manifests, with its pod and its name.
fn containers(all: &[Value]) -> Vec<(&Value, &Value)> {
    let pods = all.iter().map(|it| &it["spec"]["template"]["spec"]).filter(|pod| pod.is_object());
    pods.flat_map(|pod| {
        pod["containers"].as_array().unwrap().iter().map(move |container| (pod, container))
    })
    .collect()
}

const MANIFESTS: [&str; 4] =
    ["base/tables", "base/worker", "base/network-policy", "overlays/apply/topology"];

/// The name and the files of the `ConfigMap` that kustomize makes.
fn settings() -> (Value, BTreeMap<String, String>) {
    let base = &manifests(&read("deploy/kubernetes/base/kustomization.yaml"))[0];
    let map = &base["configMapGenerator"][0];
    let files = map["files"].as_array().unwrap().iter().map(|file| file.as_str().unwrap());
    let files = files.map(|it| (it.to_owned(), read(&format!("deploy/kubernetes/base/{it}"))));
    (map["name"].clone(), files.collect())
}

#[test]
fn the_manifests_name_what_there_is() {
    let all: Vec<Value> = MANIFESTS
        .iter()
        .flat_map(|name| manifests(&read(&format!("deploy/kubernetes/{name}.yaml"))))
        .collect();
    let (settings, data) = settings();
    let files: Vec<(&str, &str)> =
        data.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let folder = Folder::with(&files);
    let shown = folder.run(&["config"], &[]).exits(0);
    let shown: toml::Table = shown.stdout.parse().unwrap();
    folder.run(&["check", "--topology", "topology.toml", "--deny-warnings"], &[]).exits(0);
    let listen = shown["worker"]["listen"].as_str().unwrap();
    let policy = all.iter().find(|it| it["kind"] == "NetworkPolicy").unwrap();
    let allowed = policy["spec"]["ingress"][0]["ports"][0]["port"].to_string();
    assert!(listen.ends_with(&format!(":{allowed}")), "{listen}");
    let drain = shown["worker"]["drain"].as_str().unwrap();
    let secrets = ["broker.url", "management.url", "database.url"];
    let mut commands = BTreeSet::new();
    let found = containers(&all);
    assert_eq!(found.len(), 3);
    for (pod, container) in found {
        let arguments: Vec<&str> =
            container["args"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
        commands.insert(check_arguments(&arguments).join(" "));
        // The rules of the Pod Security Standard "restricted", and no token.
        assert_eq!(pod["automountServiceAccountToken"], false);
        let security = &pod["securityContext"];
        assert_eq!(security["runAsNonRoot"], true);
        assert_eq!(security["seccompProfile"]["type"], "RuntimeDefault");
        let security = &container["securityContext"];
        assert_eq!(security["allowPrivilegeEscalation"], false);
        assert_eq!(security["capabilities"]["drop"], serde_json::json!(["ALL"]));
        // Only the Jobs have the administrators' passwords.
        let is_worker = arguments.contains(&"run");
        assert_eq!(arguments.contains(&"--no-declare"), is_worker);
        // The Job of the topology needs it as well: it adds a row to `actions`.
        assert!(arguments.contains(&"--database-url-file"), "{arguments:?}");
        let secret = if is_worker { "overdue-urls" } else { "overdue-administrator-urls" };
        let settings_file = &container["env"][0];
        assert_eq!(settings_file["name"], "OVERDUE_CONFIG");
        // Each file is in a mount, and exists there.
        let named = settings_file["value"].as_str();
        for file in arguments.iter().copied().chain(named).filter(|it| it.starts_with('/')) {
            let (mount, name) = file.rsplit_once('/').unwrap();
            let mounts = container["volumeMounts"].as_array().unwrap();
            let mount = mounts
                .iter()
                .find(|it| it["mountPath"] == mount)
                .unwrap_or_else(|| panic!("{file}"));
            let volumes = pod["volumes"].as_array().unwrap();
            let volume = volumes.iter().find(|it| it["name"] == mount["name"]).unwrap();
            let is_there = if volume["configMap"]["name"] == settings {
                data.contains_key(name)
            } else {
                assert_eq!(volume["secret"]["defaultMode"], 0o440);
                volume["secret"]["secretName"] == secret && secrets.contains(&name)
            };
            assert!(is_there, "{file} is not in {volume}");
        }
        if let Some(grace) = pod["terminationGracePeriodSeconds"].as_i64() {
            let drain: i64 = drain.strip_suffix('s').unwrap().parse().unwrap();
            assert!(grace > drain, "{grace} {drain}");
            let port = &container["ports"][0];
            assert!(listen.ends_with(&format!(":{}", port["containerPort"])), "{listen} {port}");
            for (probe, path) in [("readinessProbe", "/readyz"), ("livenessProbe", "/livez")] {
                let get = &container[probe]["httpGet"];
                assert_eq!((&get["path"], &get["port"]), (&Value::from(path), &port["name"]));
            }
        }
    }
    assert_eq!(commands.into_iter().collect::<Vec<_>>(), ["apply", "database init", "run"]);
    let deployment = all.iter().find(|it| it["kind"] == "Deployment").unwrap();
    let (spec, pod) = (&deployment["spec"], &deployment["spec"]["template"]["metadata"]["labels"]);
    assert_eq!(&spec["selector"]["matchLabels"], pod);
    let budget = all.iter().find(|it| it["kind"] == "PodDisruptionBudget").unwrap();
    assert_eq!(&budget["spec"]["selector"]["matchLabels"], pod);
}

/// The compose file mounts the settings where the worker reads them, and the SQL of effects next to them.
#[test]
fn the_compose_file_mounts_settings_and_sql() {
    let compose = &manifests(&read("docker-compose.yml"))[0];
    let worker = &compose["services"]["worker"];
    let list = |key: &str| -> Vec<&str> {
        worker[key].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect()
    };
    let arguments = list("command");
    assert_eq!(check_arguments(&arguments), ["run"]);
    assert!(arguments.contains(&"--no-declare"));
    let topology = &compose["services"]["topology"]["environment"];
    // The user that declares the topology is not the worker's user.
    assert_ne!(topology["OVERDUE_BROKER__URL"], worker["environment"]["OVERDUE_BROKER__URL"]);
    let database = worker["environment"]["OVERDUE_DATABASE__URL"].as_str().unwrap();
    assert!(database.starts_with("postgres://overdue_worker:"), "{database}");
    assert_ne!(topology["OVERDUE_DATABASE__URL"], database);
    let settings = worker["environment"]["OVERDUE_CONFIG"].as_str().unwrap();
    let (folder, file) = settings.rsplit_once('/').unwrap();
    let mounts = list("volumes");
    let mount = mounts.iter().find(|it| it.contains(&format!(":{folder}:ro"))).unwrap();
    // The folder is configurable; the repository's folder has the file.
    let default = mount.split_once(":-").unwrap().1.split_once('}').unwrap().0;
    assert!(mount.starts_with("${OVERDUE_SETTINGS:-"), "{mount}");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(default);
    assert!(folder.join(file).is_file(), "{default} has no {file}");
    let topology = worker["environment"]["OVERDUE_TOPOLOGY"].as_str().unwrap();
    assert!(mounts.contains(&format!("./topology.toml:{topology}:ro").as_str()), "{mounts:?}");
    assert_eq!(worker["healthcheck"]["test"], serde_json::json!(["CMD", "overdue", "health"]));
}

#[test]
fn kubectl_takes_the_manifests_where_it_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/kubernetes/overlays/apply");
    let Ok(run) = Command::new("kubectl").arg("kustomize").arg(root).output() else {
        eprintln!("LEFT OUT: kubectl is not installed");
        return;
    };
    assert!(run.status.success(), "{run:?}");
}

#[test]
fn the_unit_names_what_there_is_and_systemd_takes_it() {
    let unit = read("deploy/systemd/overdue.service");
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let mut words: Vec<&str> = line.split_whitespace().collect();
    let program = words.remove(0);
    assert_eq!(check_arguments(&words), ["run"]);
    assert!(words.contains(&"--no-declare"));
    let credentials: BTreeSet<&str> = unit
        .lines()
        .filter_map(|line| line.strip_prefix("LoadCredential="))
        .filter_map(|line| line.split(':').next())
        .collect();
    // Systemd 249 of Ubuntu 22.04 does not know %d.
    let used = words.iter().filter_map(|word| word.strip_prefix("${CREDENTIALS_DIRECTORY}/"));
    let used: BTreeSet<&str> = used.collect();
    assert_eq!(credentials, used);
    let page = read("docs/operations.md");
    for name in used {
        assert!(page.contains(name), "{name}");
    }
    // Exit codes after which the unit does not restart the worker.
    assert!(unit.contains("RestartPreventExitStatus=64 78\n"));
    let start = format!("ExecStart={}", env!("CARGO_BIN_EXE_overdue"));
    let unit = unit.replace(&format!("ExecStart={program}"), &start);
    let folder = Folder::with(&[("overdue.service", &unit)]);
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no"]).arg(folder.path("overdue.service"));
    let Ok(run) = verify.output() else {
        eprintln!("LEFT OUT: systemd-analyze is not installed");
        return;
    };
    let said = String::from_utf8_lossy(&run.stderr);
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("overdue.service")).collect();
    assert!(run.status.success() && ours.is_empty(), "{said}");
}

#[test]
fn the_page_links_every_runbook_and_names_the_commands_that_remove() {
    let (page, runbooks) = (read("docs/operations.md"), read("docs/runbooks.md"));
    for name in runbooks.lines().filter_map(|line| line.strip_prefix("## ")) {
        let anchor = name.to_lowercase().replace(' ', "-").replace('\'', "");
        let link = format!("[{name}](runbooks.md#{anchor})");
        assert!(page.contains(&link), "docs/operations.md does not link {name}");
    }
    // `tests/it/remove.rs` tests their effect.
    let (_, removal) = page.split_once("\n## Removal\n").unwrap();
    assert!(
        removal.contains("\noverdue remove  ") && removal.contains("\noverdue remove --tables ")
    );
}
