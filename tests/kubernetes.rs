//! Image, DaemonSet and Helm chart say the same, as far as that can be seen without helm and without
//! building an image: `make image-check` does the rest.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

const MANIFEST: &str = "examples/kubernetes/daemonset.yaml";
const DOCKERFILE: &str = "examples/container/Dockerfile";
const CHART: &str = "charts/fsynctop";

fn text(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn yaml(path: &str) -> Value {
    serde_saphyr::from_str(&text(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The container of the DaemonSet.
fn container() -> Value {
    yaml(MANIFEST)["spec"]["template"]["spec"]["containers"][0].clone()
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
    assert_eq!(container()["readinessProbe"]["httpGet"]["path"], "/-/ready");
    for (name, template) in templates() {
        assert!(!template.contains("livenessProbe:"), "{name}");
    }
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

/// The page names every value, so that nobody needs the sources to know them.
#[test]
fn the_charts_page_lists_its_values() {
    let page = text(&format!("{CHART}/README.md"));
    let values = yaml(&format!("{CHART}/values.yaml"));
    for (name, value) in values.as_object().unwrap() {
        let nested =
            ["image", "webConfig", "podMonitor", "prometheusRule", "dashboard"].contains(&name.as_str());
        let names: Vec<String> = match value.as_object().filter(|_| nested) {
            Some(object) => object.keys().map(|key| format!("{name}.{key}")).collect(),
            None => vec![name.clone()],
        };
        for name in names {
            assert!(page.contains(&format!("`{name}`")), "{CHART}/README.md does not explain {name}");
        }
    }
}
