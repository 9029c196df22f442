//! A headless Chromium, driven over the pipe of its DevTools protocol. The pipe needs no port and
//! no other program.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The browser reads commands from descriptor 3 and writes answers to descriptor 4.
const START: &str = "exec chromium --headless=new --no-sandbox --disable-gpu --hide-scrollbars \
     --remote-debugging-pipe --user-data-dir=\"$0\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: Option<String>,
    next_id: u64,
    /// Errors of scripts, refused requests and messages of the console, since the start.
    pub(crate) complaints: Vec<String>,
    /// Addresses that the page requested.
    pub(crate) requests: Vec<String>,
    /// Files of the browser, removed at the end.
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts the browser; `None` if it is missing.
    pub(crate) fn start() -> Option<Self> {
        gemelo_tools::tool("chromium")?;
        let profile = tempfile::tempdir().unwrap();
        let mut child = Command::new("sh")
            .args(["-c", START])
            .arg(profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut browser = Self {
            child,
            input,
            output,
            session: None,
            next_id: 0,
            complaints: Vec::new(),
            requests: Vec::new(),
            _profile: profile,
        };
        let page = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": page["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", &attach);
        browser.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        Some(browser)
    }

    /// Opens a file in a window of this size, and waits until it is loaded.
    pub(crate) fn open(&mut self, path: &Path, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1,
            "mobile": width < 600});
        self.call("Emulation.setDeviceMetricsOverride", &size);
        self.requests.clear();
        self.call("Page.navigate", &json!({"url": format!("file://{}", path.display())}));
        self.wait_for("Page.loadEventFired");
    }

    /// Pretends that the system prefers this theme, or that the page is printed.
    pub(crate) fn emulate(&mut self, media: &str, theme: &str) {
        let features = json!([
            {"name": "prefers-color-scheme", "value": theme},
            {"name": "prefers-reduced-motion", "value": "no-preference"},
        ]);
        self.call("Emulation.setEmulatedMedia", &json!({"media": media, "features": features}));
    }

    /// Evaluates an expression in the page and returns its value.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let result = self.call(
            "Runtime.evaluate",
            &json!({"expression": expression, "returnByValue": true, "awaitPromise": true}),
        );
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Presses and releases the tabulator.
    pub(crate) fn press_tab(&mut self) {
        for kind in ["rawKeyDown", "keyUp"] {
            let key =
                json!({"type": kind, "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9});
            self.call("Input.dispatchKeyEvent", &key);
        }
    }

    /// Returns what is on the screen as PNG.
    pub(crate) fn screenshot(&mut self) -> Vec<u8> {
        let result = self.call("Page.captureScreenshot", &json!({}));
        BASE64_STANDARD.decode(result["data"].as_str().unwrap()).unwrap()
    }

    /// Prints the page, and returns the PDF.
    pub(crate) fn print(&mut self) -> Vec<u8> {
        let result = self.call("Page.printToPDF", &json!({"preferCSSPageSize": true}));
        BASE64_STANDARD.decode(result["data"].as_str().unwrap()).unwrap()
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.next_id += 1;
        let mut message = json!({"id": self.next_id, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = serde_json::to_vec(&message).unwrap();
        bytes.push(0);
        self.input.write_all(&bytes).unwrap();
        loop {
            let answer = self.receive();
            if answer["id"] == json!(self.next_id) {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
        }
    }

    fn wait_for(&mut self, event: &str) {
        while self.receive()["method"] != json!(event) {}
    }

    fn receive(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.output.read_until(0, &mut bytes).unwrap();
        assert_eq!(bytes.pop(), Some(0), "the browser ended");
        let message: Value = serde_json::from_slice(&bytes).unwrap();
        let params = &message["params"];
        match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.complaints.push(params.to_string()),
            Some("Runtime.consoleAPICalled") => self.complaints.push(params.to_string()),
            Some("Log.entryAdded") => self.complaints.push(params["entry"].to_string()),
            Some("Network.requestWillBeSent") => {
                self.requests.push(params["request"]["url"].as_str().unwrap().to_owned());
            }
            _ => {}
        }
        message
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The wrapper of the browser has replaced itself by it, so this ends the browser.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
