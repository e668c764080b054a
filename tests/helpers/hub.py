"""A small stand-in of the Hugging Face Hub's HTTP interface: repositories in memory."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Hub:
    """Commits of repositories: name -> [(sha, {path: bytes})], the newest last."""

    def __init__(self) -> None:
        self.repos: dict[str, list[tuple[str, dict[str, bytes]]]] = {}
        self.private: dict[str, bool] = {}
        self.fetched: list[str] = []

    def commit(self, repo: str, changes: dict[str, bytes]) -> str:
        history = self.repos[repo]
        files = {**(history[-1][1] if history else {}), **changes}
        sha = hashlib.sha1(repr((len(history), sorted(files.items()))).encode()).hexdigest()
        history.append((sha, files))
        return sha

    def at(self, repo: str, revision: str) -> tuple[str, dict[str, bytes]] | None:
        history = self.repos.get(repo, [])
        if revision == "main":
            return history[-1] if history else ("0" * 40, {})
        return next((one for one in history if one[0] == revision), None)


@contextmanager
def serving(hub: Hub):
    """Its address, while it answers."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_) -> None:
            pass

        def _say(self, code: int, body: bytes, **headers: str) -> None:
            self.send_response(code)
            for key, value in headers.items():
                self.send_header(key.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def _json(self, value: object, code: int = 200) -> None:
            self._say(code, json.dumps(value).encode(), Content_Type="application/json")

        def _missing(self) -> None:
            self._say(404, b"{}", X_Error_Code="RepoNotFound", X_Error_Message="no repository")

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.partition("?")[0]
            if path == "/api/repos/create":
                asked = json.loads(raw)
                name = "/".join(filter(None, (asked.get("organization"), asked["name"])))
                hub.repos.setdefault(name, [])
                hidden = asked.get("private") or asked.get("visibility") == "private"
                hub.private.setdefault(name, bool(hidden))
                self._json({"url": f"{address}/{name}"})
            elif path == "/api/validate-yaml":
                self._json({"errors": [], "warnings": []})
            elif found := re.fullmatch(r"/api/models/(.+)/preupload/(.+)", path):
                files = [one["path"] for one in json.loads(raw)["files"]]
                modes = [{"path": p, "uploadMode": "regular", "shouldIgnore": False} for p in files]
                self._json({"files": modes})
            elif found := re.fullmatch(r"/api/models/(.+)/commit/(.+)", path):
                lines = [json.loads(line) for line in raw.splitlines()]
                files = {
                    line["value"]["path"]: base64.b64decode(line["value"]["content"])
                    for line in lines
                    if line["key"] == "file"
                }
                sha = hub.commit(found[1], files)
                url = f"{address}/{found[1]}/commit/{sha}"
                self._json({"commitUrl": url, "commitOid": sha, "success": True})
            else:
                self._missing()

        def do_GET(self) -> None:
            path = self.path.partition("?")[0].replace("%2F", "/")
            if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?", path):
                there = hub.at(found[1], found[2] or "main") if found[1] in hub.repos else None
                if there is None:
                    self._missing()
                    return
                files = [{"rfilename": name} for name in there[1]]
                self._json({"id": found[1], "sha": there[0], "siblings": files})
            elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/([^/]+)(?:/.*)?", path):
                there = hub.at(found[1], found[2])
                self._json([
                    {"type": "file", "path": name, "size": len(body), "oid": "0" * 40}
                    for name, body in there[1].items()
                ])  # fmt: skip
            elif found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
                there = hub.at(found[1], found[2])
                body = None if there is None else there[1].get(found[3])
                if there is None or body is None:
                    self._say(404, b"", X_Error_Code="EntryNotFound")
                    return
                hub.fetched.append(found[3])
                etag = hashlib.sha1(body).hexdigest()
                self._say(200, body, ETag=f'"{etag}"', X_Repo_Commit=there[0])
            else:
                self._missing()

        do_HEAD = do_GET

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield address
    finally:
        server.shutdown()
        server.server_close()
