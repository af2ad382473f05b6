"""A client of Kubernetes' API with nothing but Python's standard library: kubeconfigs and the account of a pod, TLS,
requests, watches."""

import base64
import http.client
import json
import os
import socket
import ssl
import tempfile
import urllib.parse

# A server that is silent for so long after it should have answered is gone.
TIMEOUT_SECONDS = 30
# Where a pod finds the token of its account and the authority of its API server.
POD_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
# The hint of problems that pass by themselves.
RETRIED = "nothing is to be done: it is tried again"


class Problem(Exception):
    """What cannot be done, and one thing to do about it. The code is that of HTTP, or 0."""

    def __init__(self, what, hint, code=0):
        super().__init__(what)
        self.hint = hint
        self.code = code


def read_yaml(text):
    """The YAML of kubeconfigs: maps and lists in blocks, and values on one line. JSON is read too."""
    if text.lstrip().startswith("{"):
        return json.loads(text)
    lines = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped and not stripped.startswith("#") and stripped != "---":
            lines.append((len(line) - len(line.lstrip()), stripped))
    value, rest = _block(lines, 0)
    if rest < len(lines):
        raise ValueError(f"unexpected: {lines[rest][1].split(':')[0]}")
    return value


def _block(lines, at):
    indent, text = lines[at]
    if text == "-" or text.startswith("- "):
        return _list(lines, at, indent)
    if text.endswith(":") or ": " in text:
        return _map(lines, at, indent)
    return _scalar(text), at + 1


def _list(lines, at, indent):
    items = []
    while at < len(lines) and lines[at][0] == indent and (lines[at][1] == "-" or lines[at][1].startswith("- ")):
        # A block begins behind the dash.
        rest = lines[at][1][1:]
        inner = indent + 1 + len(rest) - len(rest.lstrip())
        if rest.strip():
            lines[at] = (inner, rest.strip())
        else:
            at += 1
        item, at = _block(lines, at)
        items.append(item)
    return items, at


def _map(lines, at, indent):
    fields = {}
    while at < len(lines) and lines[at][0] == indent and not lines[at][1].startswith("- "):
        key, colon, value = f"{lines[at][1]} ".partition(": ")
        if not colon:
            raise ValueError("a line is neither a list item nor a field")
        key, value, at = _scalar(key), value.strip(), at + 1
        is_list = at < len(lines) and lines[at][0] == indent and lines[at][1].startswith("- ")
        if value:
            fields[key] = {"{}": {}, "[]": []}.get(value, _scalar(value))
        elif at < len(lines) and (lines[at][0] > indent or is_list):
            fields[key], at = _block(lines, at)
        else:
            fields[key] = None
    return fields, at


def _scalar(text):
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        return json.loads(text)
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return text


class _Connection(http.client.HTTPSConnection):
    """As its parent, but the server's certificate is verified for another name than that of the host."""

    def __init__(self, host, port, name, context, timeout):
        super().__init__(host, port, timeout=timeout, context=context)
        self._name, self._tls = name, context

    def connect(self):
        plain = socket.create_connection((self.host, self.port), self.timeout)
        self.sock = self._tls.wrap_socket(plain, server_hostname=self._name)


class Client:
    """One API server, as the user of a kubeconfig's current context."""

    def __init__(self, path):
        try:
            with open(path, encoding="utf-8") as file:
                config = read_yaml(file.read())
            context = _named(config["contexts"], config["current-context"])["context"]
            cluster = _named(config["clusters"], context["cluster"])["cluster"]
            user = _named(config["users"], context["user"])["user"] or {}
            self._folder = os.path.dirname(os.path.abspath(path))
            self._prepare(cluster, user)
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise Problem(f"cannot use the kubeconfig {path}: {error!r}", "name another with --kubeconfig") from error

    @classmethod
    def of_pod(cls):
        """The API server of the pod's cluster, as the pod's account."""
        client = cls.__new__(cls)
        client._folder = POD_ACCOUNT
        try:
            host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
            cluster = {"server": f"https://{host}:{port}", "certificate-authority": "ca.crt"}
            client._prepare(cluster, {"tokenFile": "token"})
        except (OSError, KeyError, ValueError) as error:
            raise Problem(f"this is no pod with an account: {error!r}", "name a kubeconfig in KUBECONFIG") from error
        return client

    def _prepare(self, cluster, user):
        server = urllib.parse.urlsplit(cluster["server"])
        if server.scheme != "https":
            raise ValueError("the address of its server does not begin with https://")
        self.server, self._prefix = cluster["server"], server.path.rstrip("/")
        self._host, self._port = server.hostname, server.port or 443
        self._name = cluster.get("tls-server-name") or server.hostname
        self._tls = ssl.create_default_context()
        authorities = self._data(cluster, "certificate-authority")
        if authorities:
            self._tls = ssl.create_default_context(cadata=authorities.decode())
        certificate, key = self._data(user, "client-certificate"), self._data(user, "client-key")
        if certificate and key:
            # Python reads them from files only: one that no other user can read, and that is removed at once.
            with tempfile.NamedTemporaryFile() as file:
                file.write(certificate + b"\n" + key)
                file.flush()
                self._tls.load_cert_chain(file.name)
        self._token, self._token_file = user.get("token"), user.get("tokenFile")

    def _data(self, part, field):
        if part.get(f"{field}-data"):
            return base64.b64decode(part[f"{field}-data"])
        if not part.get(field):
            return None
        with open(os.path.join(self._folder, part[field]), "rb") as file:
            return file.read()

    def _send(self, method, path, body=None, media="application/json", timeout=TIMEOUT_SECONDS):
        headers = {"Accept": "application/json", "Content-Type": media, "User-Agent": "orangery-example-python"}
        token = self._current_token()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        connection = _Connection(self._host, self._port, self._name, self._tls, timeout)
        try:
            content = None if body is None else json.dumps(body).encode()
            connection.request(method, self._prefix + path, content, headers)
            return connection, connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            hint = "check that it runs and that the kubeconfig is of this server"
            raise Problem(f"cannot reach {self.server}: {error}", hint) from error

    def _current_token(self):
        if not self._token_file:
            return self._token
        try:
            # Read each time: the one in the file is renewed.
            with open(os.path.join(self._folder, self._token_file), encoding="utf-8") as file:
                return file.read().strip()
        except OSError as error:
            raise Problem(f"cannot read the token: {error}", RETRIED) from error

    def call(self, method, path, body=None, media="application/json"):
        """The object in the server's answer."""
        connection, response = self._send(method, path, body, media)
        try:
            text = response.read()
            if response.status >= 300:
                raise _refusal(f"{method} {path.partition('?')[0]}", response.status, text)
            return json.loads(text)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Problem(f"{method} {path.partition('?')[0]}: the answer is incomplete: {error}", RETRIED) from error
        finally:
            connection.close()

    def get(self, path):
        """An object, or None when it does not exist."""
        try:
            return self.call("GET", path)
        except Problem as problem:
            if problem.code == 404:
                return None
            raise

    def delete(self, path):
        """Requests the deletion of an object, which may be gone already."""
        try:
            self.call("DELETE", path)
        except Problem as problem:
            if problem.code != 404:
                raise

    def watch(self, path, version, seconds):
        """The events of a collection from a version on, for so many seconds."""
        query = f"watch=true&timeoutSeconds={seconds}&resourceVersion={version}"
        connection, response = self._send("GET", f"{path}?{query}", timeout=seconds + TIMEOUT_SECONDS)
        try:
            if response.status >= 300:
                raise _refusal(f"watch {path}", response.status, response.read())
            for line in response:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise _refusal(f"watch {path}", status.get("code", 0), json.dumps(status))
                yield event["type"], event["object"]
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Problem(f"watch {path}: the event stream is broken: {error}", RETRIED) from error
        finally:
            connection.close()


def _named(items, name):
    for item in items:
        if item["name"] == name:
            return item
    raise KeyError(name)


def _refusal(request, code, text):
    try:
        message = json.loads(text)["message"]
    except (ValueError, KeyError, TypeError):
        message = f"the server answers with {code}"
    hints = {
        401: "renew the credentials in the kubeconfig",
        403: "grant the user of the kubeconfig what is refused (see README.md)",
        404: "check that the server is a garden's",
    }
    return Problem(f"{request}: {message}", hints.get(code, RETRIED), code)
