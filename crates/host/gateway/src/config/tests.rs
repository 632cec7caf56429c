use super::*;

/// What a gateway's environment has.
fn variable(name: &str) -> Option<String> {
    match name {
        "STORE_SECRET" | "BACKUP_SECRET" => Some("secret".into()),
        "MAIN_KEY" => Some("ab".repeat(32)),
        "SHORT_KEY" => Some("ab".repeat(31)),
        _ => None,
    }
}

fn read(text: &str) -> Result<Config, ConfigError> {
    Config::from_toml(text, variable)
}

/// Lines of a file that are said to be wrong, and the keys there.
fn told(text: &str) -> Vec<(usize, String)> {
    let error = read(text).unwrap_err();
    let problems = error.problems().iter();
    problems
        .map(|problem| {
            let line = problem.position.as_ref().map_or(0, |at| at.line);
            (line, problem.key.clone())
        })
        .collect()
}

const SOUND: &str = r#"listen = "127.0.0.1:9000"
origin = "http://store.example:9000"
credentials = { access-key = "owner", secret-env = "STORE_SECRET" }

[[client]]
access-key = "backup"
secret-env = "BACKUP_SECRET"
"#;

/// What is no TOML, keys that there are not, values of other kinds, and values that mean nothing.
const FAULTY: &str = r#"# A gateway that nobody could run.
listen = "127.0.0.1"
origin = "ftp://store.example"
via = "far.example"
regoin = "eu-west-1"
domains = ["s3.site.example"
path-rate = 1000
journal = /var/lib/longhaul/uploads
credentials = { access-key = "owner", secret-file = "/nowhere/store.secret" }

[[client]]
access-key = "backup"
secret-env = "BACKUP_SECRET"

[[client]]
access-key = "backup"
secret-env = "NOT_SET"

[[bucket]]
name = "photos"
encrypt = "mian"

[[bucket]]
name = "archive"
origin = "photos"
encrpyt = "main"

[[key]]
name = "main"
env = "MAIN_KEY"

[[key]]
name = "main"
env = "SHORT_KEY"

[[form]]
path = "forms"
bucket = "potos"

[limits]
object = 5 TiB
request-memory = "1 MiB"
parallel = 1
connections = "many"
stall = 60
"#;

#[test]
fn everything_is_told_at_once_with_line_caret_and_next_step() {
    let error = read(FAULTY).unwrap_err().in_file("gateway.toml");
    assert_eq!(error.to_string(), include_str!("tests/told.txt").trim_end());
}

#[test]
fn what_only_follows_from_a_slip_is_not_told() {
    read(SOUND).unwrap();
    for (more, line, key) in [
        // The bucket has its name, under another one.
        (
            "[[bucket]]\nnmae = \"photos\"\n[[form]]\npath = \"/up\"\nbucket = \"photos\"\n",
            9,
            "bucket.nmae",
        ),
        (
            "[[bucket]]\nname = \"photos\"\nencrypt = \"main\"\n[[key]]\nname = 5\nenv = \"MAIN_KEY\"\n",
            12,
            "key.name",
        ),
        (
            "[[key]]\nname = \"main\"\nenvironment = \"MAIN_KEY\"\n",
            10,
            "key.environment",
        ),
        (
            "[[client]]\naccess-key = \"b\"\nsecret_env = \"BACKUP_SECRET\"\n",
            10,
            "client.secret_env",
        ),
    ] {
        let text = format!("{SOUND}{more}");
        assert_eq!(told(&text), [(line, key.to_owned())], "{text}");
    }
}

#[test]
fn a_program_is_not_run_for_a_file_that_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let ran = folder.path().join("ran");
    let program = format!(
        "[[key]]\nname = \"main\"\ncommand = [\"sh\", \"-c\", \"touch '{}'; printf {}\"]\n",
        ran.display(),
        "ab".repeat(32)
    );
    for wrong in [
        "[limits]\nparallel = 1\n",
        "[limits]\nparalel = 8\n",
        "[limits]\nparallel = eight\n",
        "[[key]]\nname = \"other\"\nenv = \"SHORT_KEY\"\n",
    ] {
        assert_eq!(told(&format!("{SOUND}{program}{wrong}")).len(), 1);
        assert!(!ran.exists(), "{wrong}");
    }
    read(&format!("{SOUND}{program}")).unwrap();
    assert!(ran.exists());
    let fails = format!("{SOUND}[[key]]\nname = \"main\"\ncommand = [\"false\"]\n");
    assert_eq!(told(&fails), [(10, "key.command".into())]);
}

#[test]
fn secrets_and_keys_have_one_place_each() {
    let both = SOUND.replace(
        "\"STORE_SECRET\"",
        "\"STORE_SECRET\", secret-file = \"store.secret\"",
    );
    assert_eq!(told(&both), [(3, "credentials.secret-file".into())]);
    let two = format!("{SOUND}[[key]]\nname = \"main\"\nenv = \"MAIN_KEY\"\nfile = \"main.key\"\n");
    assert_eq!(told(&two), [(8, "key".into())]);
}

#[test]
fn what_comes_from_a_command_line_is_told_with_its_key() {
    let options = GatewayOptions {
        listen: "127.0.0.1:9000".into(),
        origin: "http://store.example".into(),
        clients: vec![ClientOptions {
            access_key: Some("backup".into()),
            secret_env: Some("NOT_SET".into()),
            secret_file: None,
        }],
        ..GatewayOptions::default()
    };
    assert_eq!(
        options.resolve(variable).unwrap_err().to_string(),
        "3 things are wrong with the configuration\n  \
         credentials.access-key: there is no access key for the store; set access-key, or AWS_ACCESS_KEY_ID in the \
         environment\n  \
         credentials.secret-env: there is no secret for the store; name where it is by secret-env or secret-file, or set \
         AWS_SECRET_ACCESS_KEY in the environment\n  \
         client.secret-env: `NOT_SET` is not set in the environment, or empty; put the secret there"
    );
}

#[test]
fn the_rate_of_the_path_is_read_and_printed() {
    let text = format!("path-rate = \"250 Mbit/s\"\n{SOUND}");
    let config = read(&text).unwrap();
    assert_eq!(config.path_rate, Some(Rate::mbit_per_s(250)));
    let options = GatewayOptions::from_toml(&text).unwrap();
    let printed = options.to_toml().unwrap();
    assert!(
        printed.contains("path-rate = \"250 Mbit/s\"\n"),
        "{printed}"
    );
    assert_eq!(GatewayOptions::from_toml(&printed).unwrap(), options);
    assert_eq!(
        told(&text.replace("250 Mbit/s", "1 kbit/s")),
        [(1, "path-rate".into())]
    );
}

#[test]
fn the_documented_file_has_no_key_that_there_is_not() {
    let page = include_str!("../../../../../docs/gateway.md");
    let (_, begins) = page.split_once("```toml\n").unwrap();
    let (text, _) = begins.split_once("```").unwrap();
    let options = GatewayOptions::from_toml(text).unwrap();
    assert_eq!(options.keys.len(), 1);
}
