//! Package managers install a package from a registry on this machine, through the proxy.
//!
//! Each registry is a few fixed answers. The commands have no other network.

use std::process::Command as Host;

use super::*;
use crate::server::{Server, ok, with};

/// Runs a script on the host, in a directory.
fn host(directory: &std::path::Path, script: &str) -> String {
    let output = Host::new("bash").args(["-e", "-c", script]).current_dir(directory).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Files that a registry serves, by path. Anything else is not found.
async fn registry(files: Arc<Mutex<HashMap<String, Vec<u8>>>>) -> Server {
    Server::responding(move |path| match files.lock().unwrap().get(path) {
        Some(body) => {
            let kind = if path.contains("simple") { "text/html" } else { "application/json" };
            ok(kind, body)
        }
        None => with("404 Not Found", "", "there is no such file"),
    })
    .await
}

/// Starts a registry, and returns it with a workspace that may contact it.
async fn prepared(toml: &str) -> (Arc<Mutex<HashMap<String, Vec<u8>>>>, Server, Networked) {
    let files = Arc::new(Mutex::new(HashMap::new()));
    let server = registry(Arc::clone(&files)).await;
    let list = format!("[sandbox]\nnetwork = [\"127.0.0.1:{}\"]\n{toml}", server.port);
    let fixture = Networked::new(&list);
    (files, server, fixture)
}

/// Runs a script that may take long.
async fn install(fixture: &Networked, script: &str) -> ToolResult {
    fixture.call("shell", json!({"command": script, "timeout_ms": 300_000})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn npm_installs_a_package_through_the_proxy() {
    if !has_namespaces().await || !has_program("npm") || !has_program("node") {
        return;
    }
    let (files, server, fixture) = prepared("").await;
    let port = server.port;
    let made = tempfile::tempdir().unwrap();
    host(
        made.path(),
        "mkdir package; cd package; echo '{\"name\": \"tinypkg\", \"version\": \"1.0.0\"}' > package.json
         echo 'module.exports = \"tiny from npm\"' > index.js; cd ..; tar czf a.tgz package",
    );
    let tarball = fs::read(made.path().join("a.tgz")).unwrap();
    let at = format!("http://127.0.0.1:{port}/tinypkg/-/tinypkg-1.0.0.tgz");
    let manifest = json!({"name": "tinypkg", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0":
        {"name": "tinypkg", "version": "1.0.0", "dist": {"tarball": at}}}});
    files.lock().unwrap().extend([
        ("/tinypkg".to_owned(), manifest.to_string().into_bytes()),
        ("/tinypkg/-/tinypkg-1.0.0.tgz".to_owned(), tarball),
    ]);
    let result = install(
        &fixture,
        &format!(
            "echo '{{\"name\": \"app\", \"version\": \"1.0.0\"}}' > package.json
             npm install --no-audit --no-fund --no-update-notifier --registry http://127.0.0.1:{port}/ tinypkg >&2
             node -e 'console.log(require(\"tinypkg\"))'"
        ),
    )
    .await;
    assert!(text(&result).contains("tiny from npm"), "{}", text(&result));
    assert!(contacts(&result).contains(&format!("127.0.0.1:{port} allowed")));
}

#[tokio::test(flavor = "multi_thread")]
async fn pip_installs_a_package_through_the_proxy() {
    if !has_namespaces().await {
        return;
    }
    let pip = Host::new("/usr/bin/python3").args(["-m", "pip", "--version"]).output();
    if !pip.is_ok_and(|output| output.status.success()) {
        return eprintln!("NOT TESTED: the system's python has no pip here");
    }
    let (files, server, fixture) = prepared("").await;
    let port = server.port;
    let made = tempfile::tempdir().unwrap();
    let wheel = "tinypkg-1.0.0-py3-none-any.whl";
    let script = "import zipfile\n\
        z = zipfile.ZipFile('a.whl', 'w')\n\
        d = 'tinypkg-1.0.0.dist-info/'\n\
        z.writestr('tinypkg.py', 'NAME = \"tiny from pip\"')\n\
        z.writestr(d + 'METADATA', 'Metadata-Version: 2.1\\nName: tinypkg\\nVersion: 1.0.0\\n')\n\
        z.writestr(d + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
        z.writestr(d + 'RECORD', 'tinypkg.py,,\\n' + d + 'METADATA,,\\n' + d + 'WHEEL,,\\n' + d + 'RECORD,,\\n')\n";
    let built =
        Host::new("/usr/bin/python3").args(["-c", script]).current_dir(made.path()).status();
    assert!(built.unwrap().success());
    let page =
        format!("<!DOCTYPE html><html><body><a href=\"/files/{wheel}\">{wheel}</a></body></html>");
    files.lock().unwrap().extend([
        ("/simple/tinypkg/".to_owned(), page.into_bytes()),
        (format!("/files/{wheel}"), fs::read(made.path().join("a.whl")).unwrap()),
    ]);
    let result = install(
        &fixture,
        &format!(
            "/usr/bin/python3 -m pip install --disable-pip-version-check --no-cache-dir --no-deps \
             --target site --index-url http://127.0.0.1:{port}/simple/ tinypkg >&2
             PYTHONPATH=site /usr/bin/python3 -c 'import tinypkg; print(tinypkg.NAME)'"
        ),
    )
    .await;
    assert!(text(&result).contains("tiny from pip"), "{}", text(&result));
    assert!(contacts(&result).contains(&format!("127.0.0.1:{port} allowed")));
}

#[tokio::test(flavor = "multi_thread")]
async fn cargo_installs_a_package_through_the_proxy() {
    if !has_namespaces().await || !has_program("cargo") || !has_program("rustc") {
        return;
    }
    let (files, server, fixture) = prepared("").await;
    let port = server.port;
    let made = tempfile::tempdir().unwrap();
    let sum = host(
        made.path(),
        "mkdir -p tinycrate-1.0.0/src; cd tinycrate-1.0.0
         printf '[package]\\nname = \"tinycrate\"\\nversion = \"1.0.0\"\\nedition = \"2021\"\\n' > Cargo.toml
         echo 'pub const NAME: &str = \"tiny from cargo\";' > src/lib.rs
         cd ..; tar czf a.crate tinycrate-1.0.0; sha256sum a.crate | cut -d' ' -f1",
    );
    let line = json!({"name": "tinycrate", "vers": "1.0.0", "deps": [], "cksum": sum, "features": {},
        "yanked": false});
    let settings = json!({"dl": format!("http://127.0.0.1:{port}/dl")});
    let crate_file = fs::read(made.path().join("a.crate")).unwrap();
    files.lock().unwrap().extend([
        ("/index/config.json".to_owned(), settings.to_string().into_bytes()),
        ("/index/ti/ny/tinycrate".to_owned(), format!("{line}\n").into_bytes()),
        ("/dl/tinycrate/1.0.0/download".to_owned(), crate_file),
    ]);
    let sysroot = PathBuf::from(host(made.path(), "rustc --print sysroot")).canonicalize().unwrap();
    let path = format!("{}/bin:/usr/bin:/bin", sysroot.display());
    let fixture =
        fixture.tools(|tools| tools.read_only_root(&sysroot).variables([("PATH", path.as_str())]));
    // The configuration of cargo is a protected name, so the person writes it.
    host(
        &fixture.inside,
        &format!(
            "mkdir -p .cargo src
             printf '[source.crates-io]\\nreplace-with = \"stub\"\\n[source.stub]\\nregistry = \"sparse+http://127.0.0.1:{port}/index/\"\\n' > .cargo/config.toml
             printf '[package]\\nname = \"app\"\\nversion = \"1.0.0\"\\nedition = \"2021\"\\n[dependencies]\\ntinycrate = \"1\"\\n' > Cargo.toml
             echo 'pub const NAME: &str = tinycrate::NAME;' > src/lib.rs"
        ),
    );
    let result = install(
        &fixture,
        "mkdir -p home; CARGO_HOME=$PWD/home cargo build -j 1 >&2; grep -c tinycrate Cargo.lock; \
         find home -path '*tinycrate-1.0.0/src/lib.rs' | xargs cat",
    )
    .await;
    assert!(text(&result).contains("tiny from cargo"), "{}", text(&result));
    assert!(contacts(&result).contains(&format!("127.0.0.1:{port} allowed")), "{}", text(&result));
}
