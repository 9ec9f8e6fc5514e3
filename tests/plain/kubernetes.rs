//! Image, DaemonSet and Helm chart say the same, as far as that can be seen without helm and without
//! building an image: `make image-check` does the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use serde_json::Value;

const MANIFEST: &str = "examples/kubernetes/daemonset.yaml";
const DOCKERFILE: &str = "examples/container/Dockerfile";
const CHART: &str = "charts/fsynctop";
/// It asks on the exporter's local socket: the kubelet does not reach a loopback address of a pod.
const LOCAL_PROBE: [&str; 4] = ["fsynctop", "history", "--last", "1s"];

fn text(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn yaml(path: &str) -> Value {
    serde_saphyr::from_str(&text(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The only document of this kind in the manifest.
fn document(kind: &str) -> Value {
    let all = text(MANIFEST);
    let documents = all.split("\n---\n").map(|document| serde_saphyr::from_str::<Value>(document).unwrap());
    let found: Vec<Value> = documents.filter(|document| document["kind"] == kind).collect();
    let [document] = &found[..] else { panic!("{MANIFEST} has {} documents of kind {kind}", found.len()) };
    document.clone()
}

/// The container of the DaemonSet.
fn container() -> Value {
    document("DaemonSet")["spec"]["template"]["spec"]["containers"][0].clone()
}

/// What the Dockerfile sets by an instruction: `ARG VERSION`, `ENV PATH`, a label.
fn set_by_dockerfile(name: &str) -> String {
    let dockerfile = text(DOCKERFILE);
    let start = format!("{name}=");
    let found =
        dockerfile.lines().find_map(|line| line.trim().trim_start_matches("LABEL ").strip_prefix(&start));
    let found = found.unwrap_or_else(|| panic!("{DOCKERFILE} has no {name}"));
    found.trim_end_matches(['\\', ' ']).trim_matches('"').to_owned()
}

fn templates() -> Vec<(String, String)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(CHART).join("templates");
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| (path.file_name().unwrap().to_string_lossy().into(), fs::read_to_string(path).unwrap()))
        .collect()
}

#[test]
fn the_charts_rules_and_dashboard_are_those_of_the_examples() {
    for (name, source) in [
        ("fsynctop.rules.yml", "examples/prometheus/fsynctop.rules.yml"),
        ("fsynctop.json", "examples/grafana/fsynctop.json"),
    ] {
        let ours = format!("{CHART}/files/{name}");
        assert!(text(&ours) == text(source), "{ours} is not {source}");
        let used = format!("files/{name}");
        assert!(templates().iter().any(|(_, template)| template.contains(&used)), "no template uses {used}");
    }
}

#[test]
fn chart_image_and_daemon_set_have_the_programs_version() {
    let version = env!("CARGO_PKG_VERSION");
    let chart = yaml(&format!("{CHART}/Chart.yaml"));
    assert_eq!(chart["version"], version);
    assert_eq!(chart["appVersion"], version);
    assert_eq!(set_by_dockerfile("ARG VERSION"), version);
    let image = container()["image"].as_str().unwrap().to_owned();
    assert!(image.ends_with(&format!(":{version}")), "{MANIFEST}: {image}");
}

#[test]
fn the_image_is_labelled_as_the_package_and_starts_it_as_root() {
    for (label, wanted) in [
        ("title", env!("CARGO_PKG_NAME")),
        ("description", env!("CARGO_PKG_DESCRIPTION")),
        ("licenses", env!("CARGO_PKG_LICENSE")),
        ("version", "$VERSION"),
        ("revision", "$REVISION"),
    ] {
        assert_eq!(set_by_dockerfile(&format!("org.opencontainers.image.{label}")), wanted);
    }
    assert_eq!(set_by_dockerfile("ENV PATH"), "/usr/bin");
    let dockerfile = text(DOCKERFILE);
    let last = dockerfile.rsplit("\nFROM ").next().unwrap();
    assert!(last.starts_with("scratch\n"), "the image is made from {}", last.lines().next().unwrap());
    let has = |line: &str| last.lines().any(|found| found == line);
    assert!(has("USER 0"), "capabilities are root's");
    assert!(has(r#"ENTRYPOINT ["/usr/bin/fsynctop"]"#), "a pod's args are those of fsynctop");
    assert!(!last.contains("\nRUN "), "there is no shell to run anything");
}

#[test]
fn the_exporter_becomes_the_images_user() {
    let user = set_by_dockerfile("ENV FSYNCTOP_USER");
    let entry = format!("fsynctop:x:{user}:{user}:");
    assert!(text("examples/container/passwd").lines().any(|line| line.starts_with(&entry)), "{entry}");
    assert_eq!(yaml(&format!("{CHART}/values.yaml"))["user"], user.as_str());
    let arguments = container()["args"].as_array().unwrap().clone();
    let at = arguments.iter().position(|argument| argument == "--user").unwrap();
    assert_eq!(arguments[at + 1], user.as_str());
}

#[test]
fn nothing_restarts_the_exporter_while_a_disk_hangs() {
    assert!(container().get("livenessProbe").is_none());
    for (name, template) in templates() {
        assert!(!template.contains("livenessProbe:"), "{name}");
    }
}

/// As much of helm as it takes to see what the templates make of some values: which branches are rendered,
/// helpers and single values. Of everything else only `…` is rendered, and that counts as not empty.
struct Helm {
    values: Value,
    helpers: BTreeMap<String, String>,
}

/// A template's text and actions, in turn; the text comes first, and after the last action.
type Pieces<'a> = std::vec::IntoIter<&'a str>;

impl Helm {
    /// With the chart's own values, but for these.
    fn with(changes: &[(&str, Value)]) -> Helm {
        let mut values = yaml(&format!("{CHART}/values.yaml"));
        for (path, value) in changes {
            let pointer = format!("/{}", path.replace('.', "/"));
            let at = values.pointer_mut(&pointer).unwrap_or_else(|| panic!("there is no value {path}"));
            *at = value.clone();
        }
        let helpers = text(&format!("{CHART}/templates/_helpers.tpl"));
        let helpers = helpers.split("{{- define \"").skip(1).map(|helper| {
            let (name, body) = helper.split_once("\" -}}\n").unwrap();
            (name.to_owned(), body.to_owned())
        });
        Helm { values, helpers: helpers.collect() }
    }

    /// What a file of the chart's templates becomes, or the message with which the chart fails.
    fn template(&self, name: &str) -> Result<String, String> {
        self.render(&text(&format!("{CHART}/templates/{name}")))
    }

    fn render(&self, template: &str) -> Result<String, String> {
        let mut pieces = Vec::new();
        let mut rest = template;
        while let Some((text, after)) = rest.split_once("{{") {
            let (action, after) = after.split_once("}}").unwrap();
            let (action, text) = match action.strip_prefix('-') {
                Some(action) => (action, text.trim_end()),
                None => (action, text),
            };
            let (action, after) = match action.strip_suffix('-') {
                Some(action) => (action, after.trim_start()),
                None => (action, after),
            };
            pieces.extend([text, action.trim()]);
            rest = after;
        }
        pieces.push(rest);
        self.block(&mut pieces.into_iter(), &mut BTreeMap::new(), true).map(|(text, _)| text)
    }

    /// Up to the action that ends this block, which is returned as well.
    fn block<'a>(
        &self,
        pieces: &mut Pieces<'a>,
        variables: &mut BTreeMap<&'a str, String>,
        is_rendered: bool,
    ) -> Result<(String, &'a str), String> {
        let mut rendered = String::new();
        while let Some(text) = pieces.next() {
            rendered.push_str(text);
            let Some(action) = pieces.next() else { break };
            match action.split_once(' ').unwrap_or((action, "")) {
                ("end" | "else", _) => return Ok((rendered, action)),
                ("/*", _) => {}
                ("if" | "with", condition) => {
                    let mut condition = condition;
                    let mut is_decided = !is_rendered;
                    loop {
                        let holds = !is_decided && is_true(&self.value(condition, variables)?);
                        let (branch, end) = self.block(pieces, variables, holds)?;
                        if holds {
                            rendered.push_str(&branch);
                        }
                        is_decided |= holds;
                        condition = match end {
                            "end" => break,
                            "else" => "true",
                            other => other.strip_prefix("else if ").unwrap(),
                        };
                    }
                }
                _ if !is_rendered => {}
                (name, definition) if name.starts_with('$') && definition.starts_with(":=") => {
                    let value = self.value(&definition[2..], variables)?;
                    variables.insert(name, value);
                }
                _ => {
                    if action.contains("| nindent ") {
                        rendered.push('\n');
                    }
                    rendered.push_str(&self.value(action, variables)?);
                }
            }
        }
        Ok((rendered, "end"))
    }

    fn value(&self, expression: &str, variables: &BTreeMap<&str, String>) -> Result<String, String> {
        let words = regex::Regex::new(r#""[^"]*"|[()]|[^\s()]+"#).unwrap();
        self.call(&mut words.find_iter(expression).map(|word| word.as_str()), variables)
    }

    /// A function with what it is given, up to a closing parenthesis or to where it is piped into another.
    fn call(
        &self,
        words: &mut dyn Iterator<Item = &str>,
        variables: &BTreeMap<&str, String>,
    ) -> Result<String, String> {
        let mut given = Vec::new();
        while let Some(word) = words.next().filter(|&word| word != ")" && word != "|") {
            given.push(match word.trim_start_matches('$').strip_prefix(".Values.") {
                Some(path) => self.chosen(path),
                None if word == "(" => self.call(words, variables)?,
                None => variables.get(word).cloned().unwrap_or_else(|| word.trim_matches('"').to_owned()),
            });
        }
        match &given[..] {
            [or, all @ ..] if or == "or" => {
                Ok(all.iter().find(|it| is_true(it)).cloned().unwrap_or_default())
            }
            [and, all @ ..] if and == "and" => Ok(all.iter().all(|it| is_true(it)).to_string()),
            [not, it] if not == "not" => Ok((!is_true(it)).to_string()),
            [include, name, _] if include == "include" => self.render(&self.helpers[name]),
            [fail, message] if fail == "fail" => Err(message.clone()),
            [value] if value != "." && !value.starts_with(".Files") => Ok(value.clone()),
            _ => Ok("…".to_owned()),
        }
    }

    /// A value of the chart; one that is not a scalar becomes `…`, or nothing if it is empty.
    fn chosen(&self, path: &str) -> String {
        let value = path.split('.').fold(&self.values, |value, key| &value[key]);
        match value {
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::Array(values) if !values.is_empty() => "…".into(),
            Value::Object(values) if !values.is_empty() => "…".into(),
            _ => String::new(),
        }
    }

    /// The lines of the DaemonSet, without their indentation.
    fn daemon_set(&self) -> Vec<String> {
        let rendered = self.template("daemonset.yaml").unwrap();
        rendered.lines().map(|line| line.trim().to_owned()).collect()
    }
}

/// To a condition of a template.
fn is_true(value: &str) -> bool {
    !value.is_empty() && value != "false"
}

/// The values of `--listen`.
fn listened(arguments: &[String]) -> Vec<&str> {
    arguments.windows(2).filter(|pair| pair[0] == "--listen").map(|pair| &*pair[1]).collect()
}

/// The arguments among the lines of a rendered DaemonSet.
fn arguments(lines: &[String]) -> Vec<String> {
    let lines = lines.iter().skip_while(|line| *line != "args:").skip(1);
    lines.map_while(|line| line.strip_prefix("- ")).map(str::to_owned).collect()
}

fn is_loopback(address: &str) -> bool {
    address.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_loopback())
}

#[test]
fn the_manifest_serves_on_loopback_alone_unless_a_web_configuration_protects_it() {
    let set = document("DaemonSet");
    let arguments: Vec<String> = serde_json::from_value(container()["args"].clone()).unwrap();
    let addresses = listened(&arguments);
    assert!(!addresses.is_empty(), "{MANIFEST} does not say where it listens");
    assert!(container().get("env").is_none(), "FSYNCTOP_LISTEN would be an address too");
    if arguments.iter().any(|argument| argument == "--web-config-file") {
        return;
    }
    assert!(addresses.iter().all(|address| is_loopback(address)), "{MANIFEST} serves on {addresses:?}");
    let pod = &set["spec"]["template"];
    assert!(pod["spec"].get("hostNetwork").is_none(), "every process of the node would reach its loopback");
    assert!(!pod["metadata"].to_string().contains("prometheus.io"), "nobody can scrape it");
    assert_eq!(container()["readinessProbe"]["exec"]["command"], serde_json::json!(LOCAL_PROBE));
}

#[test]
fn the_chart_serves_on_loopback_alone_unless_it_is_told_otherwise() {
    let secret = ("webConfig.secretName", Value::from("web"));
    let unprotected = ("exposeUnprotected", Value::from(true));
    for (values, address, is_protected, probe) in [
        (vec![], "127.0.0.1:9871", false, "exec:"),
        (vec![unprotected.clone()], "0.0.0.0:9871", false, "httpGet:"),
        (vec![secret.clone()], "0.0.0.0:9871", true, "tcpSocket:"),
        (vec![secret, unprotected], "0.0.0.0:9871", true, "tcpSocket:"),
    ] {
        let helm = Helm::with(&values);
        let lines = helm.daemon_set();
        let has = |wanted: &str| lines.iter().any(|line| line == wanted);
        let arguments = arguments(&lines);
        assert_eq!(listened(&arguments), [address], "{values:?}");
        assert_eq!(arguments.iter().any(|word| word == "--web-config-file"), is_protected, "{values:?}");
        assert!(has(probe), "{values:?}: no {probe}");
        assert_eq!(has(&format!("command: [{}]", LOCAL_PROBE.join(", "))), probe == "exec:", "{values:?}");
        let is_exposed = !is_loopback(address);
        assert_eq!(has("prometheus.io/scrape: \"true\""), is_exposed, "{values:?}");

        let monitored: Vec<_> = [values.clone(), vec![("podMonitor.enabled", true.into())]].concat();
        let monitor = Helm::with(&monitored).template("podmonitor.yaml");
        match (is_exposed, &monitor) {
            (true, Ok(text)) => assert!(text.contains("kind: PodMonitor"), "{values:?}: {text}"),
            (false, Err(message)) => {
                for way in ["127.0.0.1", "webConfig.secretName", "exposeUnprotected"] {
                    assert!(message.contains(way), "{message}");
                }
            }
            _ => panic!("{values:?}: {monitor:?}"),
        }
        let notes = helm.template("NOTES.txt").unwrap();
        assert_eq!(notes.contains("Prometheus cannot scrape it"), !is_exposed, "{values:?}: {notes}");
        assert_eq!(notes.contains("without TLS and without users"), is_exposed && !is_protected, "{notes}");
    }
    let values = yaml(&format!("{CHART}/values.yaml"));
    assert_eq!(values["extraArgs"], serde_json::json!([]), "another --listen could be among them");
    for (name, template) in templates() {
        for other_way in ["hostNetwork", "hostPort", "FSYNCTOP_LISTEN"] {
            assert!(!template.contains(other_way), "{name}: {other_way}");
        }
    }
}

#[test]
fn a_network_policy_lets_in_the_namespace_and_nothing_out() {
    let policy = document("NetworkPolicy");
    let (set, spec) = (document("DaemonSet"), &policy["spec"]);
    assert_eq!(policy["metadata"]["namespace"], set["metadata"]["namespace"]);
    assert_eq!(spec["podSelector"], set["spec"]["selector"]);
    assert_eq!(spec["policyTypes"], serde_json::json!(["Ingress", "Egress"]));
    assert_eq!(spec["egress"], serde_json::json!([]));
    let port = &container()["ports"][0]["containerPort"];
    let from = &yaml(&format!("{CHART}/values.yaml"))["networkPolicy"]["from"];
    assert_eq!(*from, serde_json::json!([{ "podSelector": {} }]));
    let rule = serde_json::json!({ "from": from, "ports": [{ "protocol": "TCP", "port": port }] });
    assert_eq!(spec["ingress"], Value::from(vec![rule]));

    let of_chart = |changes: &[(&str, Value)]| Helm::with(changes).template("networkpolicy.yaml").unwrap();
    for (from, ingress) in [
        (from.clone(), "ingress: - from: … ports: - protocol: TCP port: 9871"),
        // Kubernetes takes a rule without peers for one that lets everybody in.
        (serde_json::json!([]), "ingress: []"),
    ] {
        let text = of_chart(&[("networkPolicy.from", from)]);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let labels = Helm::with(&[]).render("{{ include \"fsynctop.selectorLabels\" . }}").unwrap();
        let labels = labels.split_whitespace().collect::<Vec<_>>().join(" ");
        let wanted = format!(
            "spec: podSelector: matchLabels: {labels} policyTypes: [Ingress, Egress] {ingress} egress: []"
        );
        assert!(words.contains("kind: NetworkPolicy "), "{text}");
        assert!(words.ends_with(&wanted), "{words}\nis not\n{wanted}");
    }
    assert_eq!(of_chart(&[("networkPolicy.enabled", false.into())]).trim(), "");
}

#[test]
fn the_chart_asks_for_the_daemon_sets_capabilities() {
    let wanted: Vec<String> =
        serde_json::from_value(container()["securityContext"]["capabilities"]["add"].clone()).unwrap();
    let template = text(&format!("{CHART}/templates/daemonset.yaml"));
    let (_, added) = template.split_once("add:\n").unwrap();
    let found: Vec<_> = added.lines().map_while(|line| line.trim().strip_prefix("- ")).collect();
    assert_eq!(found, wanted);
}

/// Paths of all values, down to where the schema lets a user write what Kubernetes allows.
fn leaves(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value.as_object().filter(|object| !object.is_empty()) {
        Some(object) => object.iter().for_each(|(key, value)| leaves(value, &format!("{path}.{key}"), found)),
        None => _ = found.insert(path.to_owned()),
    }
}

/// The value itself, not another one that begins like it, or a part of it.
fn uses(templates: &str, value: &str) -> bool {
    let longer = |rest: &str| rest.starts_with(|next: char| next.is_alphanumeric() || next == '.');
    templates.match_indices(value).any(|(at, _)| !longer(&templates[at + value.len()..]))
}

#[test]
fn every_value_of_the_chart_is_in_its_schema_and_used() {
    let values = yaml(&format!("{CHART}/values.yaml"));
    let schema: Value = serde_json::from_str(&text(&format!("{CHART}/values.schema.json"))).unwrap();
    let templates: String = templates().into_iter().map(|(_, template)| template).collect();

    fn compare(values: &Value, schema: &Value, path: &str) {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
        assert_eq!(schema["additionalProperties"], false, "{path}: a misspelt value would pass");
        let Some(values) = values.as_object() else { return };
        for (name, value) in values {
            let property =
                properties.get(name).unwrap_or_else(|| panic!("{path}.{name} is not in the schema"));
            compare(value, property, &format!("{path}.{name}"));
        }
        // `global` is for charts that contain this one; objects that Kubernetes defines may be given in part.
        let optional = ["global", "localhostProfile", "user", "role", "type", "level"];
        for name in properties.keys().filter(|name| !optional.contains(&name.as_str())) {
            assert!(values.contains_key(name), "{path}.{name} is not in values.yaml");
        }
    }
    compare(&values, &schema, "");

    let mut found = BTreeSet::new();
    leaves(&values, "", &mut found);
    for leaf in found {
        // A template may use all of an object at once.
        let mut part = leaf.as_str();
        while !uses(&templates, &format!(".Values{part}")) {
            part = part.rsplit_once('.').unwrap().0;
            assert!(!part.is_empty(), "no template uses {leaf}");
        }
    }
}

fn scalars(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::String(text) => vec![text.clone()],
        Value::Bool(_) | Value::Number(_) => vec![value.to_string()],
        Value::Object(values) => values.values().flat_map(scalars).collect(),
        Value::Array(_) | Value::Null => Vec::new(),
    }
}

/// The page names every value and its default, so that nobody needs the sources to know them.
#[test]
fn the_charts_page_lists_its_values() {
    let page = text(&format!("{CHART}/README.md"));
    let values = yaml(&format!("{CHART}/values.yaml"));
    for (name, value) in values.as_object().unwrap() {
        let nested =
            ["image", "recording", "webConfig", "networkPolicy", "podMonitor", "prometheusRule", "dashboard"]
                .contains(&&**name);
        let names: Vec<String> = match value.as_object().filter(|_| nested) {
            Some(object) => object.keys().map(|key| format!("{name}.{key}")).collect(),
            None => vec![name.clone()],
        };
        for name in names {
            let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
            let row = row.unwrap_or_else(|| panic!("{CHART}/README.md does not explain {name}"));
            // What takes more than a word is told in words, but for these.
            let is_told = ["resources", "seccompProfile", "appArmorProfile"].contains(&&*name);
            let value = name.split('.').fold(&values, |value, key| &value[key]);
            let by_default = row.split('|').nth(2).unwrap();
            for figure in scalars(value).iter().filter(|_| is_told || !value.is_object()) {
                assert!(by_default.contains(&**figure), "{CHART}/README.md: {row}: {figure} by default");
            }
        }
    }
}
