"""Runs real clients behind `ttsr proxy`: `run.py TTSR FOLDER [CLIENT…]`. FOLDER has the installed clients. As many
clients run at a time as the machine has cores, each with a provider of its own.

`run.py --quick TTSR FOLDER` runs the SDKs, Claude Code and Codex. `run.py --page TTSR FOLDER` writes what the clients show
into docs/clients.md.

Each client is run without the proxy and behind it, in the cases of `provider.py`:

    plain        the reply is the same, with as many requests
    text         the reply is stopped: the client shows the reason, and does not ask again
    retry        the request is sent once more: the client shows the second text, and not the word of the first
    redact       the text has a secret: the client shows it redacted
    tool         a call is stopped: it does not run
    retry-tool   a call is retried: only the second one runs
    secret       the result of a call has a secret: the provider does not get it

The last three are for agents, which run a shell. Most clients run as `ttsr proxy -- CLIENT`; those with their base URL
in a file only, pi and omp, use a proxy that runs as a server.
"""

import concurrent.futures
import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
from provider import (MESSAGE, PLAIN_TEXT, RETRIED, SECOND, SECOND_TEXT, SECRET, SECRET_FILE, STOPPED,  # noqa: E402
                      Provider)

HERE = pathlib.Path(__file__).parent
PACK = f"""
schema = 1
[pack]
name = "e2e"
grants = ["abort", "retry", "redact"]
[defaults]
on = ["text", "reasoning", "tool-input"]
severity = "error"
[rule.stop]
description = "A word that must not be written."
action = "abort"
hold = true
match.any = [{{ literal = "{STOPPED}" }}]
examples.match = ["{STOPPED}"]
[rule.again]
description = "A word to replace by another."
action = "retry"
hold = true
retry = {{ max = 1, then = "abort" }}
message = "Please {MESSAGE}."
match.any = [{{ literal = "{RETRIED}" }}]
examples.match = ["{RETRIED}"]
[rule.hide]
description = "A key."
on = ["text", "tool-output"]
action = "redact"
match.any = [{{ regex = 'key-[a-z0-9]{{24}}' }}]
examples.match = ["{SECRET}"]
"""
REASON = "[ttsr: reply stopped by rule e2e/stop"
CODEX = """
model = "m"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
model_provider = "direct"
[analytics]
enabled = false
[model_providers.direct]
name = "direct"
base_url = "{url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
"""
# With a Google login Gemini CLI uses Code Assist, with a key Gemini's API.
GEMINI_LOGINS = {
    "login": ("oauth-personal", {"GOOGLE_GENAI_USE_GCA": "true", "GOOGLE_CLOUD_ACCESS_TOKEN": "dummy"}),
    "key": ("gemini-api-key", {"GEMINI_API_KEY": "dummy"}),
}


@dataclasses.dataclass
class Client:
    command: list
    is_agent: bool = False
    # The base URL is in a file, which must have the address of the proxy.
    is_served: bool = False
    # The login in the settings of Gemini CLI, and variables for this client alone.
    gemini_login: str = ""
    variables: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Run:
    # What the client shows.
    output: str
    errors: str
    code: int
    # The bodies of the requests that the provider got.
    requests: list
    # The names of the files in the client's folder.
    files: set

    def outcome(self):
        return self.code, len(self.requests)

    def end(self):
        return f"{self.code}, {len(self.requests)} requests, {self.output[-400:]!r}, {self.errors[-400:]!r}"


def clients(folder):
    found = {f"node-{name}": Client(["node", str(folder / "node" / "sdk.mjs"), name])
             for name in ("anthropic", "chat", "responses", "ai")}
    python = [str(folder / "python" / "bin" / "python"), str(HERE / "sdk.py")]
    found |= {f"python-{name}": Client(python + [name])
              for name in ("anthropic", "anthropic-whole", "chat", "responses")}
    aider = [str(folder / "aider" / "bin" / "aider"), "--model", "openai/m", "--no-check-update", "--analytics-disable",
             "--no-show-model-warnings", "--no-git", "--yes-always", "--no-pretty", "--message"]
    found["aider"] = Client(aider)
    found["claude"] = Client(["claude", "-p", "--dangerously-skip-permissions"], is_agent=True)
    found["codex"] = Client(["codex", "exec", "--skip-git-repo-check"], is_agent=True)
    for name, (login, variables) in GEMINI_LOGINS.items():
        command = ["gemini", "--model", "gemini-2.5-flash", "--approval-mode", "yolo", "-p"]
        found[f"gemini-{name}"] = Client(command, is_agent=True, gemini_login=login, variables=variables)
    for provider in ("anthropic", "openai"):
        command = ["opencode", "run", "--title", "T", "--model", f"{provider}/m"]
        found[f"opencode-{provider}"] = Client(command, is_agent=True)
    for api in ("messages", "chat", "responses"):
        command = ["pi", "--provider", api, "--model", "m", "--no-session", "-p"]
        found[f"pi-{api}"] = Client(command, is_agent=True, is_served=True)
    for api in ("messages", "chat", "responses"):
        command = ["omp", "--model", f"{api}/m", "--no-session", "--no-title", "--auto-approve", "-p"]
        found[f"omp-{api}"] = Client(command, is_agent=True, is_served=True)
    return found


def opencode_settings(url):
    providers = {name: {"options": {"baseURL": f"{url}/v1", "apiKey": "dummy"},
                        "models": {"m": {"name": "m", "tool_call": True, "limit": {"context": 200000, "output": 8192}}}}
                 for name in ("anthropic", "openai")}
    return {"autoupdate": False, "share": "disabled", "permission": {"*": "allow"},
            "enabled_providers": list(providers), "provider": providers}


def pi_settings(url):
    model = {"id": "m", "name": "m", "reasoning": False, "input": ["text"], "contextWindow": 200000, "maxTokens": 8192,
             "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}}
    apis = {"messages": ("anthropic-messages", url), "chat": ("openai-completions", f"{url}/v1"),
            "responses": ("openai-responses", f"{url}/v1")}
    return {"providers": {name: {"baseUrl": base, "api": api, "apiKey": "dummy", "models": [model]}
                          for name, (api, base) in apis.items()}}


def gemini_settings(login):
    return {"security": {"auth": {"selectedType": login}}, "privacy": {"usageStatisticsEnabled": False},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False}}


def write_settings(home, url, client):
    """Writes the files that name the base URL. The proxy's settings for Codex and OpenCode win over theirs."""
    settings = {".codex/config.toml": CODEX.replace("{url}", url),
                ".gemini/settings.json": json.dumps(gemini_settings(client.gemini_login)),
                ".config/opencode/opencode.json": json.dumps(opencode_settings(url)),
                ".pi/agent/models.json": json.dumps(pi_settings(url)),
                # JSON is YAML.
                ".omp/agent/models.yml": json.dumps(pi_settings(url))}
    for name, text in settings.items():
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text(text)


def environment(folder, home, url):
    bins = ":".join(str(folder / name / "node_modules" / ".bin") for name in ("node", "agents"))
    return {"PATH": f"{bins}:{os.environ['PATH']}", "HOME": str(home), "TERM": "dumb", "LANG": "C.UTF-8",
            "GOOGLE_GEMINI_BASE_URL": url, "CODE_ASSIST_ENDPOINT": url, "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "ANTHROPIC_API_KEY": "dummy", "ANTHROPIC_BASE_URL": url, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1", "IS_SANDBOX": "1", "OPENAI_API_KEY": "dummy", "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_API_BASE": f"{url}/v1", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "PI_OFFLINE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"}


@contextlib.contextmanager
def served(proxy, url):
    """Runs the proxy as a server and gives its URL."""
    command = proxy + ["--listen", "127.0.0.1:0", "--upstream", url]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            line = server.stderr.readline()
            if "listening on" not in line:
                raise RuntimeError(f"the proxy did not start: {line}")
            yield line.split()[-1]
        finally:
            server.terminate()


def run(client, case, provider, proxy, folder, options=()):
    """Runs the client, behind the proxy with these options if there is one."""
    provider.requests.clear()
    with contextlib.ExitStack() as stack:
        # A client may leave a process that still writes.
        folder_of_run = tempfile.TemporaryDirectory(prefix="ttsr-e2e-", ignore_cleanup_errors=True)
        home = pathlib.Path(stack.enter_context(folder_of_run))
        work = home / "work"
        work.mkdir()
        (work / SECRET_FILE).write_text(f"{SECRET}\n")
        (home / "pack.toml").write_text(PACK)
        command, url = client.command + [f"Please answer. case:{case}"], provider.url
        if proxy:
            behind = [proxy, "proxy", "--pack", str(home / "pack.toml"), *options]
            if client.is_served:
                url = stack.enter_context(served(behind, url))
            else:
                command = behind + ["--"] + command
        write_settings(home, url, client)
        try:
            done = subprocess.run(command, cwd=work, env=environment(folder, home, url) | client.variables,
                                  capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
            output, errors, code = done.stdout, done.stderr, done.returncode
        except subprocess.TimeoutExpired:
            output, errors, code = "", "no end within 120 seconds", None
        return Run(output, errors, code, list(provider.requests), {path.name for path in work.iterdir()})


def check(client, proxy, folder):
    """Returns the problems of a client."""
    provider = Provider.start()
    problems = []

    def expect(is_met, what):
        if not is_met:
            problems.append(what)

    def direct(case):
        return run(client, case, provider, None, folder)

    def behind(case):
        return run(client, case, provider, proxy, folder)

    plain, done = direct("plain"), behind("plain")
    code, count = plain.outcome()
    expect(PLAIN_TEXT in plain.output, f"without the proxy: {plain.end()}")
    expect(PLAIN_TEXT in done.output, f"plain: {done.end()}")
    expect(done.outcome() == (code, count), f"plain: {done.end()}, not {plain.end()}")
    expect(client.is_agent or done.output == plain.output, f"plain: {done.output!r} is not {plain.output!r}")
    done = behind("text")
    expect(REASON in done.output, f"text: no reason: {done.end()}")
    expect(STOPPED not in done.output + done.errors, f"text: the word was shown: {done.end()}")
    expect(done.outcome() == (0, count), f"text: not {count} requests: {done.end()}")
    done = behind("retry")
    expect(SECOND_TEXT in done.output, f"retry: no second text: {done.end()}")
    expect(RETRIED not in done.output + done.errors, f"retry: the word was shown: {done.end()}")
    expect(done.outcome() == (0, count + 1), f"retry: not {count + 1} requests: {done.end()}")
    done = behind("redact")
    expect("[redacted]" in done.output, f"redact: nothing was redacted: {done.end()}")
    expect(SECRET not in done.output + done.errors, f"redact: the secret was shown: {done.end()}")
    expect(done.outcome() == (0, count), f"redact: not {count} requests: {done.end()}")
    if not client.is_agent:
        return problems

    called, done = direct("tool"), behind("tool")
    expect(STOPPED in called.files, f"tool: it did not run without the proxy: {called.end()}")
    expect(STOPPED not in done.files, "tool: the stopped call ran")
    expect(REASON in done.output, f"tool: no reason: {done.end()}")
    expect(done.outcome() == (0, count), f"tool: not {count} requests: {done.end()}")
    done, count = behind("retry-tool"), len(called.requests)
    expect(RETRIED not in done.files, "retry-tool: the first call ran")
    expect(SECOND in done.files, f"retry-tool: the second call did not run: {done.end()}")
    expect(done.outcome() == (0, count + 1), f"retry-tool: not {count + 1} requests: {done.end()}")
    plain, done = direct("secret"), behind("secret")
    expect(SECRET in json.dumps(plain.requests), f"secret: not in the requests without the proxy: {plain.end()}")
    expect(SECRET not in json.dumps(done.requests), "secret: it was sent")
    expect("[redacted]" in json.dumps(done.requests), f"secret: nothing was redacted: {done.end()}")
    expect(done.outcome() == (0, count), f"secret: not {count} requests: {done.end()}")
    return problems


def main():
    arguments = sys.argv[1:]
    is_quick, is_page = arguments[0] == "--quick", arguments[0] == "--page"
    proxy, folder, *names = arguments[is_quick or is_page:]
    folder = pathlib.Path(folder).absolute()
    shutil.copy(HERE / "sdk.mjs", folder / "node" / "sdk.mjs")
    known = clients(folder)
    if is_page:
        import page
        return page.write(HERE.parent.parent / "docs" / "clients.md", known, proxy, folder, run)
    if is_quick:
        # The agents take longest, so they begin first.
        names = ["claude", "codex"] + [name for name in known if name.startswith(("node-", "python-"))]
    names = names or list(known)
    if unknown := set(names) - set(known):
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        checks = [pool.submit(check, known[name], proxy, folder) for name in names]
        for name, checked in zip(names, checks):
            problems = checked.result()
            print(f"{name:<24}{'ok' if not problems else 'FAILED'}", flush=True)
            for problem in problems:
                print(f"    {problem}", flush=True)
            failed += bool(problems)
    print(f"{len(names) - failed} of {len(names)} clients are ok")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
