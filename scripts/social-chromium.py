"""Chromium as a client of the social server: scripts/social-clients calls it.

Usage: social-chromium.py CHROMIUM FOLDER URL...

For each URL: a page of this program connects, sends the key in its first frame and a segment with a wrong tag in the
second one, and reports the close code. The server closes such a connection with the code 1000.
"""

import http.server
import subprocess
import sys
import threading

LIMIT = 60

PAGE = """<html><body><script>
  const steps = [];
  const socket = new WebSocket("%s");
  socket.binaryType = "arraybuffer";
  socket.onopen = () => {
    steps.push("open");
    socket.send(new Uint8Array(32).fill(9));
    socket.send(new Uint8Array([0, 17].concat(new Array(17).fill(1))));
  };
  socket.onclose = (event) => {
    steps.push("close " + event.code);
    fetch("/result", { method: "POST", body: steps.join(", ") });
  };
</script></body></html>
"""


class Pages(http.server.BaseHTTPRequestHandler):
    """Serves the page, and takes its report."""

    def do_GET(self):
        """Answers with the page."""
        is_page = self.path == "/"
        self.send_response(200 if is_page else 404)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        if is_page:
            self.wfile.write((PAGE % self.server.url).encode())

    def do_POST(self):
        """Takes the report."""
        self.server.report = self.rfile.read(min(int(self.headers["Content-Length"]), 1000)).decode()
        self.send_response(204)
        self.end_headers()
        self.server.done.set()

    def log_message(self, *_):
        """Logs nothing."""


def check(chromium, folder, url):
    """The report of Chromium for one URL."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    server.url, server.report, server.done = url, "no answer", threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser = subprocess.Popen(
        [
            chromium,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--ignore-certificate-errors",
            f"--user-data-dir={folder}",
            "--remote-debugging-port=0",
            f"http://127.0.0.1:{server.server_port}/",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    server.done.wait(LIMIT)
    browser.terminate()
    try:
        browser.wait(LIMIT)
    except subprocess.TimeoutExpired:
        browser.kill()
        browser.wait()
    server.shutdown()
    return server.report


def main():
    """Prints a line for each URL."""
    chromium, folder, urls = sys.argv[1], sys.argv[2], sys.argv[3:]
    status = 0
    for number, url in enumerate(urls):
        report = check(chromium, f"{folder}/{number}", url)
        is_right = report == "open, close 1000"
        print(f"Chromium: {url}: {'' if is_right else 'failed: '}{report}", flush=True)
        status = status or (0 if is_right else 1)
    sys.exit(status)


if __name__ == "__main__":
    main()
